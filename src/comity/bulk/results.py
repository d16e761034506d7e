"""Results: what stands in the output for one line."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from comity import redact
from comity.bulk.output import UNKNOWN
from comity.bulk.rows import Invalid, Row
from comity.client import media
from comity.client.response import Response
from comity.errors import BadResponse
from comity.policy.attempt import Attempt

_encode = msgspec.json.Encoder().encode
_skip = msgspec.json.Decoder(msgspec.Raw).decode
_MARGIN = 100
_OPENED, _CLOSED = b"[" * _MARGIN, b"]" * _MARGIN


class ErrorEntry(msgspec.Struct, gc=False):
    """Why a row is not ok."""

    type: str
    message: str


class TimingsEntry(msgspec.Struct, gc=False):
    """The phases of a send, seconds."""

    queue: float
    pool: float
    dns: float
    connect: float
    tls: float
    upload: float
    response: float
    download: float
    total: float


class AttemptEntry(msgspec.Struct, gc=False):
    """One send, as a result shows it; times are seconds."""

    number: int
    status: int | None
    error: str | None
    waited: float
    sent: str
    timings: TimingsEntry


class Result(msgspec.Struct, gc=False):
    """One line of the output.

    Attributes:
        id: the input's id, else the line number.
        line: the number of the input line, counted through all inputs.
        url, method: of the request, secrets masked.
        ok: whether the answer was a success (2xx) that could be read.
        status: the answer's status.
        body: a JSON value, text, or {"base64": ...}; null with --no-body.
        elapsed: seconds from the first send to the end, waits between sends included.
        attempts: every send.
        error: why it is not ok; absent when it is.
        input: the name of the line's input; absent when there is one input alone.
    """

    id: str | int
    line: int
    url: str | None
    method: str | None
    ok: bool
    status: int | None
    body: Any
    elapsed: float
    attempts: list[AttemptEntry]
    error: ErrorEntry | msgspec.UnsetType = msgspec.UNSET
    input: str | msgspec.UnsetType = msgspec.UNSET


def of_response(row: Row, response: Response, elapsed: float, *, keep_body: bool = True) -> Result:
    """Return the result of a whole answer."""
    error: ErrorEntry | msgspec.UnsetType = msgspec.UNSET
    body: Any = None
    if not response.ok:
        error = ErrorEntry("StatusError", _status_text(response))
    if keep_body:
        try:
            body = body_of(response)
        except BadResponse as bad:
            error, body = error or ErrorEntry("BadResponse", str(bad)), response.text
    result = _result(row, elapsed, response.attempts)
    result.ok, result.status, result.body, result.error = error is msgspec.UNSET, response.status_code, body, error
    return result


def of_error(row: Row, kind: str, message: str, elapsed: float, attempts: Sequence[Attempt] = ()) -> Result:
    """Return the result of a row without a whole answer."""
    result = _result(row, elapsed, attempts)
    last = attempts[-1] if attempts else None
    result.status = last.status if last is not None else None
    result.error = ErrorEntry(kind, redact.text(message))
    return result


def of_invalid(invalid: Invalid) -> Result:
    """Return the result of a line that is no request."""
    return Result(
        id=invalid.line if invalid.id is None else invalid.id,
        line=invalid.line,
        url=None if invalid.url is None else redact.url(invalid.url),
        method=invalid.method,
        ok=False,
        status=None,
        body=None,
        elapsed=0.0,
        attempts=[],
        error=ErrorEntry("invalid", redact.text(invalid.message)),
        input=invalid.input or msgspec.UNSET,
    )


def of_unknown(row: Row | Invalid) -> Result:
    """Return the result of a row that was being sent when an earlier run was killed."""
    result = of_invalid(row) if isinstance(row, Invalid) else _result(row, 0.0, ())
    text = "an earlier run was stopped while this was being sent; it may have been carried out (--resend-unknown)"
    result.error = ErrorEntry(UNKNOWN, text)
    return result


def encode(result: Result) -> bytes:
    """Return a result as one line of JSON, without its end.

    Half a surrogate pair, which no UTF-8 can hold (RFC 3629 section 3), becomes U+FFFD.
    """
    try:
        return _encode(result)
    except UnicodeEncodeError:
        result.id, result.url, result.body = _sound(result.id), _sound(result.url), _sound(result.body)
        for entry in result.attempts:
            entry.error = _sound(entry.error)
        if result.error is not msgspec.UNSET:
            result.error.message = _sound(result.error.message)
        return _encode(result)


def body_of(response: Response) -> Any:
    """Return a body as it stands in a result.

    JSON in UTF-8 is taken over as it came (numbers keep every digit), with its line breaks made blanks, which JSON
    allows between values only.

    Raises:
        BadResponse: it says it is JSON and is not, or is nested too deep to be read again.
    """
    content = response.content
    kind = media.kind(response.headers.get("content-type"))
    if kind == "json" and content and content[0] in b'{["-0123456789tfn \n' and _is_plain_json(content):
        return msgspec.Raw(content.replace(b"\r", b" ").replace(b"\n", b" ").strip())
    try:
        data = _sound(response.data) if kind == "json" else response.data
    except RecursionError:
        raise BadResponse("the body's JSON is nested too deep", response=response) from None
    return {"base64": base64.b64encode(data).decode()} if isinstance(data, bytes) else data


def _is_plain_json(content: bytes) -> bool:
    deep = content.count(b"[") + content.count(b"{") > _MARGIN
    try:
        content.decode()
        # A result adds levels of its own, and whoever reads it may have used some.
        _skip(_OPENED + content + _CLOSED if deep else content)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


def _sound(value: Any) -> Any:
    """Return a value without halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_sound(each) for each in value]
    if isinstance(value, dict):
        return {_sound(name): _sound(each) for name, each in value.items()}
    return value


def _result(row: Row, elapsed: float, attempts: Sequence[Attempt]) -> Result:
    entries = [_attempt(each) for each in attempts]
    return Result(
        row.id,
        row.line,
        _shown(row.url),
        row.method,
        ok=False,
        status=None,
        body=None,
        elapsed=round(elapsed, 6),
        attempts=entries,
        input=row.input or msgspec.UNSET,
    )


def _attempt(attempt: Attempt) -> AttemptEntry:
    each = attempt.timings
    timings = TimingsEntry(
        each.queue and round(each.queue, 6),
        each.pool and round(each.pool, 6),
        each.dns and round(each.dns, 6),
        each.connect and round(each.connect, 6),
        each.tls and round(each.tls, 6),
        round(each.upload, 6),
        round(each.response, 6),
        round(each.download, 6),
        round(each.total, 6),
    )
    return AttemptEntry(attempt.number, attempt.status, attempt.error, round(attempt.waited, 6), attempt.sent, timings)


def _shown(url: str) -> str:
    """Return a URL without its secrets, which stand before an "@" or after a "=" only."""
    return redact.url(url) if "@" in url or "=" in url else url


def _status_text(response: Response) -> str:
    text = f"answered {response.status_code} {response.reason}".rstrip()
    location = response.headers.get("location")
    if 300 <= response.status_code < 400 and location:
        return f"{text}; redirects are not followed: {redact.url(location)}"
    return text
