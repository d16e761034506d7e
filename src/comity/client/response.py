"""Response: a whole answer, read and checked, with everything it took to get it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, overload

from comity import redact
from comity.client import media, typed
from comity.client.headers import Headers
from comity.errors import BadResponse, StatusError
from comity.policy.attempt import NO_TIMINGS, Attempt, Timings
from comity.policy.json_path import JsonPath
from comity.policy.outcome import asks_again

if TYPE_CHECKING:
    from comity.client.request import Request

T = TypeVar("T")

_WITHOUT_CONTENT = frozenset({204, 205, 304})


class Response:
    """A whole answer.

    Args:
        status_code: 200 to 999.
        headers: the answer's headers; `set-cookie` is masked unless the request asked for `expose_cookies`.
        content: the body, its content codings undone.
        request: the request it answers.
        timings: seconds per phase of the attempt that brought it.
        attempts: every wire attempt of the call, this one last.
        retry_after: seconds that the answer asked to wait, or None.
        history: the answers that led here, when redirects were followed, each with its own attempts.
    """

    __slots__ = ("attempts", "content", "headers", "history", "request", "retry_after", "status_code", "timings")

    def __init__(
        self,
        status_code: int,
        headers: Headers,
        content: bytes,
        *,
        request: Request,
        timings: Timings = NO_TIMINGS,
        attempts: tuple[Attempt, ...] = (),
        retry_after: float | None = None,
        history: tuple[Response, ...] = (),
    ) -> None:
        self.status_code = status_code
        self.headers = headers
        self.content = content
        self.request = request
        self.timings = timings
        self.attempts = attempts
        self.retry_after = retry_after
        self.history = history

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status_code < 300

    @property
    def url(self) -> str:
        """The URL that answered."""
        return self.request.url

    @property
    def reason(self) -> str:
        """The standard phrase of the status, "" for one without."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    @property
    def without_content(self) -> bool:
        """Whether HTTP allows the answer no content."""
        return self.status_code in _WITHOUT_CONTENT or self.request.method == "HEAD"

    @property
    def text(self) -> str:
        """The body as text, by the charset of its Content-Type, else UTF-8."""
        return media.decode_text(self.content, self._content_type)

    @property
    def data(self) -> Any:
        """The body by its Content-Type: a JSON value, text or bytes; None where HTTP allows no content.

        Raises:
            BadResponse: it says it is JSON and is not.
        """
        if self.without_content:
            return None
        match media.kind(self._content_type):
            case "json":
                return self.json()
            case "text":
                return self.text
            case "bytes":
                return self.content

    def json(self) -> Any:
        """Return the body as JSON whatever its Content-Type says; None where HTTP allows no content.

        Raises:
            BadResponse: it is no JSON, or more than can be read (in depth, or in the digits of an integer); its
                `response` is this one.
        """
        if self.without_content:
            return None
        try:
            return media.decode_json(self.content, self._content_type)
        except (ValueError, RecursionError) as error:
            wrong = media.what_is_wrong(self.content, error)
            raise self.bad(f"{self.line} with a body that {wrong} ({len(self.content)} bytes)") from None

    def field(self, path: JsonPath) -> object:
        """Return what stands there in the JSON body, MISSING when nothing does."""
        return media.json_field(self.content, path)

    @overload
    def into(self, kind: type[T]) -> T: ...
    @overload
    def into(self, kind: object) -> Any: ...
    def into(self, kind: object) -> Any:
        """Return the JSON body as a value of a type: a dataclass, TypedDict, msgspec.Struct, or a list of such.

        Raises:
            BadResponse: the body is no JSON, or not of that type; the message names the place, such as "$[3].age".
            OptionsError: `kind` is no type that JSON can become.
        """
        return typed.decode(self, kind)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as plain values for JSON, without secrets: beside an error's `as_dict`, for logs.

        Keys are method, url, status_code, headers (a list of values by name), size, timings, retry_after (seconds), attempts
        and history. Of the body there is the `size` alone, in bytes: what is a secret in a body nobody can tell.
        """
        headers: dict[str, list[str]] = {}
        for name, value in redact.headers(self.headers.multi_items()):
            headers.setdefault(name, []).append(value)
        return {
            "method": self.request.method,
            "url": redact.url(self.url),
            "status_code": self.status_code,
            "headers": headers,
            "size": len(self.content),
            "timings": self.timings.as_dict(),
            "retry_after": self.retry_after,
            "attempts": [attempt.as_dict() for attempt in self.attempts],
            "history": [before.as_dict() for before in self.history],
        }

    def raise_for_status(self) -> Response:
        """Return this answer, or raise when its status is 400 or above.

        Raises:
            StatusError: it is; the error's headers keep cookies masked.
        """
        if self.status_code >= 400:
            raise self.error()
        return self

    def error(self, counts_as: int | None = None) -> StatusError:
        """Return a StatusError for this answer, whatever its status; `counts_as` is what a rule of `accept` makes of it."""
        said = "" if counts_as is None else f", which counts as {counts_as} by a rule of accept"
        return StatusError(
            f"{self.line}{said}",
            response=self.masked(),
            retry_after=self.retry_after,
            retryable=asks_again(self.status_code if counts_as is None else counts_as),
            request=self.request,
            attempts=self.attempts,
        )

    def bad(self, text: str) -> BadResponse:
        """Return a BadResponse for this answer."""
        return BadResponse(text, response=self.masked(), request=self.request, attempts=self.attempts)

    def masked(self) -> Response:
        """Return this answer with its cookies masked."""
        return Response(
            self.status_code,
            mask_cookies(self.headers),
            self.content,
            request=self.request,
            timings=self.timings,
            attempts=self.attempts,
            retry_after=self.retry_after,
            history=tuple(each.masked() for each in self.history),
        )

    @property
    def line(self) -> str:
        """What was asked and what came, in one line without secrets."""
        status = f"{self.status_code} {self.reason}".rstrip()
        return f"{self.request.line} answered {status}"

    def __repr__(self) -> str:
        return f"<Response {self.status_code} {self.request.line}>"

    @property
    def _content_type(self) -> str | None:
        return self.headers.get("content-type")


def mask_cookies(headers: Headers) -> Headers:
    """Return headers whose `set-cookie` values are masked."""
    if "set-cookie" not in headers:
        return headers
    return Headers(redact.cookies(headers.pairs))
