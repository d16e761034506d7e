"""Series: what takes more than one request: many at a time, page after page, again and again until it is finished."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

from comity.client import address, mapping, pages, typed
from comity.client.address import Url
from comity.client.aside import aside
from comity.client.download import Download, Downloaded, Progress
from comity.client.mapping import Item, MapErrors
from comity.client.options import RequestOptions
from comity.client.pages import NextPage
from comity.client.polling import Done, Poll, PollOptions
from comity.client.response import Response
from comity.client.streamed import StreamedResponse
from comity.client.verbs import Verbs
from comity.engine.clock import Clock
from comity.engine.mapping import each_result
from comity.errors import RequestError
from comity.policy.options import Policy
from comity.policy.retry import Retry
from comity.policy.units import Seconds

T = TypeVar("T")

Requests = Iterable[Item] | AsyncIterable[Item]


class Series(Verbs):
    """What asks several times."""

    _ahead: int
    """How many requests `map` has in hand."""

    @property
    @abstractmethod
    def _clock(self) -> Clock:
        """On which `poll` waits."""

    @abstractmethod
    def stream(
        self, method: str, url: Url, **options: Unpack[RequestOptions]
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send a request and hand out its answer when the head is there."""

    @abstractmethod
    def _rules_for(self, url: Url) -> tuple[str, Policy, Mapping[str, Any]]:
        """Return a URL made absolute, the rules of its host, and the options that this view presets."""

    async def _aside(self, work: Callable[[], T]) -> T:
        """Run a function that takes a while."""
        return await aside(work)

    @abstractmethod
    async def _sleep(self, seconds: float) -> None:
        """Wait, between two looks of `poll` for one, or raise ClientClosed."""

    @property
    def _each(self) -> mapping.Each:
        """How `map` has many requests in hand."""
        return each_result

    @overload
    def map(
        self,
        requests: Requests,
        *,
        into: None = None,
        ordered: bool = False,
        errors: Literal["raise"] = "raise",
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Response, None]: ...
    @overload
    def map(
        self,
        requests: Requests,
        *,
        into: None = None,
        ordered: bool = False,
        errors: Literal["return"],
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Response | RequestError, None]: ...
    @overload
    def map(
        self,
        requests: Requests,
        *,
        into: type[T],
        ordered: bool = False,
        errors: Literal["raise"] = "raise",
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[T, None]: ...
    @overload
    def map(
        self,
        requests: Requests,
        *,
        into: type[T],
        ordered: bool = False,
        errors: Literal["return"],
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[T | RequestError, None]: ...
    @overload
    def map(
        self,
        requests: Requests,
        *,
        into: object,
        ordered: bool = False,
        errors: MapErrors = "raise",
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Any, None]: ...
    def map(
        self,
        requests: Requests,
        *,
        into: Any = None,
        ordered: bool = False,
        errors: MapErrors = "raise",
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Send many requests, as many at a time as the limits let, and yield their answers, in bounded memory.

        Leaving the loop cancels what is under way: at once, or with `contextlib.aclosing` before the next statement.

        Args:
            requests: sync or async; each is a URL, a (method, url) pair, or a mapping with `url`, perhaps `method`, and
                options of `request`. They are read ahead up to 8 for each slot of the widest `concurrency`: where one host or
                group stands still its requests fill that in time, and hold up the others unless each has a `map` of its own.
            into: the type that each answer's body is decoded to and that is yielded in its place; see `request`.
            ordered: in the order of the requests; else as the answers come.
            errors: "raise" a failure in its place, which ends the loop, or "return" it as a value among the answers; its
                `.request` says whose it is. A request that cannot be sent as it stands is an InvalidRequest.
            options: of `request`, for all of them; a request's own win.

        Raises:
            OptionsError: an option cannot be used.
            ClientClosed: the client was closed; whatever `errors` says.

        Example:
            async for answer in api.map((f"/users/{number}" for number in range(1_000_000)), errors="return"):
                print(answer)
        """
        if into is not None:
            typed.check_type(into)
            options["into"] = into
        return mapping.answers(
            self._ask, requests, options, ahead=self._ahead, ordered=ordered, errors=errors, each=self._each
        )

    @overload
    def paginate(
        self,
        url: Url,
        *,
        into: None = None,
        next: NextPage = "link",
        max_pages: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Response, None]: ...
    @overload
    def paginate(
        self,
        url: Url,
        *,
        into: type[T],
        next: NextPage = "link",
        max_pages: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[T, None]: ...
    @overload
    def paginate(
        self,
        url: Url,
        *,
        into: object,
        next: NextPage = "link",
        max_pages: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Any, None]: ...
    def paginate(
        self,
        url: Url,
        *,
        into: Any = None,
        next: NextPage = "link",  # noqa: A002 - the word for it, as in rel=next
        max_pages: int | None = None,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Get a list page by page, each when the limits allow it, and yield the answers.

        A page that is no success is the last one.

        Args:
            url: of the first page.
            into: the type that each page's body is decoded to and that is yielded in its place. A page that is no success is
                then raised.
            next: where an answer names the next page. "link": its `Link` header's rel=next (RFC 8288). "json:PATH": the
                URL, perhaps relative, at that place of its body, such as "json:meta.next". "cursor:PATH=PARAM": the value
                there becomes the query parameter PARAM of the first page's URL. Or a function of the answer that returns
                the URL. Nothing there (missing, null, false or "") ends it.
            max_pages: at most so many; None for no bound.
            options: of `request`, for every page; `params` for the first, and for all with a cursor.

        Raises:
            OptionsError: an option cannot be used.
            BadResponse: an answer names a page of another origin or one that was there before, or is no JSON.

        Example:
            async for page in api.paginate("/users", next="cursor:next_cursor=cursor", params={"limit": 100}):
                print(len(page.data["users"]))
        """
        if into is not None:
            typed.check_type(into)
            options["raise_for"] = "non_2xx"
        show = _itself if into is None else partial(typed.decode, into=into)
        return pages.pages(self._ask, url, options, next_page=next, max_pages=max_pages, show=show)

    @overload
    async def poll(self, url: Url | Response, *, into: None = None, **options: Unpack[PollOptions]) -> Response: ...
    @overload
    async def poll(self, url: Url | Response, *, into: type[T], **options: Unpack[PollOptions]) -> T: ...
    @overload
    async def poll(self, url: Url | Response, *, into: object, **options: Unpack[PollOptions]) -> Any: ...
    async def poll(
        self,
        url: Url | Response,
        *,
        done: Done | None = None,
        every: Seconds | None = None,
        deadline: Seconds | None = None,
        into: Any = None,
        **options: Any,
    ) -> Any:
        """Get a URL again and again until the work that it stands for is finished, and return the last answer.

        The server says when to look again, by `nextPollMs` in the body or by Retry-After; the waits are spread by a fifth,
        and are 100 ms at least, or `every` if that is less.

        Args:
            url: of the status; or the answer that took the work on, whose Location names it, at the same origin, and whose
                hint of when to look is obeyed.
            done: a function that says whether an answer is the last; by default one that is not 202 and has no
                `nextPollMs` in its body.
            every: seconds (or text) between two requests where the server names no time; by default 2 s at first, later
                more, up to 16 s.
            deadline: for everything, waits included; None for no limit.
            into: the type that the last answer's body is decoded to and returned as; see `request`.
            options: of `request`, for every look.

        Raises:
            OptionsError: an option cannot be used.
            TimedOut: the next look would come after the deadline.
            BadResponse: the answer that was given names no status.
            RequestError: a look failed, as for `request`.

        Example:
            report = await api.poll(await api.post("/reports", json={"year": 2030}), deadline="10min")
        """
        if into is not None:
            typed.check_type(into)
        poll = Poll(done=done, every=every, deadline=deadline, clock=self._clock, sleep=self._sleep)
        response = await poll.until_done(self._ask, url, options)
        if into is None:
            return response
        if not response.ok:
            raise response.error()
        return typed.decode(response, into)

    async def download(
        self,
        url: Url,
        path: str | os.PathLike[str],
        *,
        resume: bool = True,
        checksum: str | None = None,
        progress: Progress | None = None,
        **options: Unpack[RequestOptions],
    ) -> Downloaded:
        """Get a URL into a file, which is there when all of it is, and not before.

        What comes goes to `PATH.part`. When it breaks off, the rest of the same file is asked for, as often as `retry`
        allows; when that is not enough, the next `download` goes on there, also in another process.

        Args:
            url: of what is wanted.
            path: of the file, in a directory that is there; a file of that name is replaced in one step.
            resume: go on with what an earlier download of the same URL left, if the server can tell that it has the same.
            checksum: what the file has to be, such as "sha256:9f86d0..."; any other is thrown away.
            progress: called after each piece with the bytes that are there and those there will be, None if unknown.
            options: of `request`; `deadline` is for everything, and an answer that does not bring the file is always raised:
                one that is not 2xx, and a 202 or 204 too.

        Raises:
            OptionsError, InvalidRequest: an option cannot be used, or another download writes to the path.
            OSError: the file cannot be written.
            BadResponse: what came is not what was announced, or fails its checksum.
            RequestError: it could not be fetched, as for `request`.

        Example:
            await api.download("/exports/7.csv", "export.csv", checksum="sha256:...")
        """
        whole, policy, presets = self._rules_for(url)
        chosen: dict[str, Any] = {**presets, **options, "raise_for": "non_2xx", "accept": None}
        if chosen.get("params"):
            whole, chosen = address.with_params(whole, chosen["params"]), {**chosen, "params": None}
        deadline = chosen.pop("deadline", policy.deadline)
        download = Download(
            path,
            resume=resume,
            checksum=checksum,
            progress=progress,
            deadline=deadline,
            retry=Retry.of(chosen["retry"]) if "retry" in chosen else policy.retry,
            clock=self._clock,
            sleep=self._sleep,
            aside=self._aside,
        )
        return await download.run(self.stream, whole, chosen)


def _itself(page: Response) -> Response:
    return page
