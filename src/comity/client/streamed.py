"""StreamedResponse: an answer whose body is read while it comes.

What reads is written once, as coroutines; for threads the same are run to their end, as `blocking` says.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping

from comity.client import media
from comity.client.headers import Headers
from comity.client.lines import Lines
from comity.client.request import Request
from comity.client.response import Response
from comity.client.stepping import finish, iterate
from comity.engine.call import Exchange
from comity.engine.held import Opened
from comity.errors import StatusError
from comity.policy.attempt import Attempt
from comity.policy.units import integer

Cost = int | Mapping[str, int]


_LEFT = "the block of this stream was left: its connection is closed"


class Body:
    """A body that is being read, and the call that stands at it.

    Args:
        opened: the answer.
        over: told what the attempt came to, once; it gives back what the call holds, and raises when the body is broken.
        drop: gives it back without a word.
        correct: takes what the request really cost.

    A body that is forgotten before its end drops what it holds.

    Attributes:
        block: the client, and the place (task or thread) that stands in the block; None before there is one.
        shared: whether it was read from another place too.
    """

    def __init__(
        self,
        opened: Opened[Response],
        over: Callable[[Exchange[Response]], None],
        drop: Callable[[], None],
        correct: Callable[[Cost], None],
    ) -> None:
        self.head, self.correct = opened.head, correct
        self._opened, self._settle, self._drop = opened, over, drop
        self._settled = self._closed = self._reading = False
        self._why = _LEFT
        self._where: Callable[[], object] | None = None
        self.block: tuple[object, object] | None = None
        self.shared = False
        self._error: Exception | None = None

    async def chunk(self) -> bytes:
        """Return the next bytes, b"" at the end; the slot is free from then on.

        Raises:
            BadResponse, TimedOut: the body is broken, or did not come in time.
            RuntimeError: the block was left, or somebody else reads just now.
        """
        if self._error is not None:
            raise self._error
        self._check_open()
        if self._where is not None and self.block is not None and self._where() != self.block[1]:
            self.shared = True
        if self._reading:
            raise RuntimeError("this stream is being read already: by one task or thread at a time")
        self._reading = True
        try:
            data = b"" if self._settled else await self._opened.chunk()
        finally:
            self._reading = False
        self._check_open()  # whoever leaves the block meanwhile cuts the body: what came is not the whole
        if not data and not self._settled:
            self._end(self._opened.exchange)
        return data

    def stand(self, client: object, where: Callable[[], object]) -> None:
        """Say whose block it is read in, and how to tell the place."""
        self._where, self.block = where, (client, where())

    @property
    def open(self) -> bool:
        """Whether it is neither at its end nor closed."""
        return not (self._settled or self._closed)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(self._why)

    async def close(self, why: str = _LEFT) -> None:
        """End the attempt if it is not over; nothing is raised that nobody was reading for, but `why` to who reads on."""
        if not self._closed:
            self._closed, self._why = True, why
        if not self._settled:
            self._end(await self._opened.abort(), quiet=True)

    def drop(self) -> None:
        """Give everything back; for destructors."""
        if not self._settled:
            self._settled = self._closed = True
            self._opened.drop()
            self._drop()

    def __del__(self) -> None:
        self.drop()

    def _end(self, exchange: Exchange[Response] | None, *, quiet: bool = False) -> None:
        assert exchange is not None
        self._settled = True
        try:
            self._settle(exchange)
        except Exception as error:
            self._error = error
            if not quiet:
                raise


class _Streamed:
    """What both kinds have."""

    def __init__(self, body: Body) -> None:
        self._body = body

    @property
    def status_code(self) -> int:
        """The answer's status."""
        return self._body.head.status_code

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return self._body.head.ok

    @property
    def headers(self) -> Headers:
        """The answer's headers."""
        return self._body.head.headers

    @property
    def request(self) -> Request:
        """The request that it answers."""
        return self._body.head.request

    @property
    def url(self) -> str:
        """The URL that answered."""
        return self._body.head.url

    @property
    def history(self) -> tuple[Response, ...]:
        """The answers that led here, when redirects were followed."""
        return self._body.head.history

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every wire attempt; the last is there when the body was read to its end or the block was left.

        They never come to a block that is forgotten instead of left: a destructor ends it, which may not wait for the books.
        `client.har` tells of it nevertheless.
        """
        return self._body.head.attempts

    def error(self) -> StatusError:
        """Return a StatusError for this answer, whatever its status; its body is empty."""
        return self._body.head.error()

    def settle(self, actual: Cost) -> None:
        """Correct what the request was charged with to what it really cost, which a stream tells at its end at the earliest.

        Args:
            actual: in requests, or by budget, such as {"tokens": 812}; a budget not named keeps its estimate.

        Raises:
            OptionsError: a cost is no whole number, or names no budget of the host.
        """
        self._body.correct(actual)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status_code} {self.request.line}>"

    async def _bytes(self, size: int | None) -> AsyncGenerator[bytes, None]:
        size = None if size is None else integer(size, "chunk_size", 1)
        waiting = bytearray()
        while data := await self._body.chunk():
            if size is None:
                yield data
                continue
            waiting += data
            at = 0
            while len(waiting) - at >= size:
                at += size
                yield bytes(waiting[at - size : at])
            del waiting[:at]
        if waiting:
            yield bytes(waiting)

    def _splitter(self) -> Lines:
        return Lines(media.charset(self.headers.get("content-type")))

    async def _read(self) -> bytes:
        parts = []
        while data := await self._body.chunk():
            parts.append(data)
        return b"".join(parts)


class StreamedResponse(_Streamed):
    """An answer from `AsyncClient.stream`: its head came, its body is read here, by one task at a time.

    Every reader goes on where the one before stopped; at the end of the body there is nothing more. The body is complete
    and sound when a reader came to its end without an error.

    Example:
        async with api.stream("GET", "/export.csv") as response:
            async for line in response.iter_lines():
                print(line)
    """

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the body, its content codings undone, as it comes.

        Args:
            chunk_size: bytes of every piece but the last; None for pieces as they come.

        Raises:
            BadResponse, TimedOut: the body is broken or did not come in time; what was yielded before is a part of it.
        """
        return self._bytes(chunk_size)

    def iter_lines(self) -> AsyncGenerator[str, None]:
        r"""Yield the lines of the body as soon as they are whole, without their ends: \n, \r\n or \r.

        The charset is the Content-Type's, else UTF-8. A line has no bound: one that never ends is kept in memory.

        Raises:
            BadResponse, TimedOut: as for `iter_bytes`.
        """
        return self._lines()

    async def _lines(self) -> AsyncGenerator[str, None]:
        lines = self._splitter()
        while data := await self._body.chunk():
            for line in lines.feed(data):
                yield line
        for line in lines.end():
            yield line

    async def read(self) -> bytes:
        """Return what is left of the body, whatever its size.

        Raises:
            BadResponse, TimedOut: as for `iter_bytes`.
        """
        return await self._read()


class BlockingStreamedResponse(_Streamed):
    """An answer from `Client.stream`: `StreamedResponse` for plain `for`, read by one thread at a time."""

    def iter_bytes(self, chunk_size: int | None = None) -> Generator[bytes, None, None]:
        """Yield the body as it comes; see `StreamedResponse.iter_bytes`."""
        return iterate(self._bytes(chunk_size), self)

    def iter_lines(self) -> Generator[str, None, None]:
        """Yield the lines of the body; see `StreamedResponse.iter_lines`."""
        # Not the coroutine once more: a step of it for each line takes longer than the line.
        lines = self._splitter()
        while data := finish(self._body.chunk()):
            yield from lines.feed(data)
        yield from lines.end()

    def read(self) -> bytes:
        """Return what is left of the body; see `StreamedResponse.read`."""
        return finish(self._read())
