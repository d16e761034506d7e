"""Wire: one connection, speaking HTTP/1.1 with aiohttp's protocol and parser.

aiohttp's own session is not used: it sends an idempotent request again on its own, counts its timeouts from the queue,
lets an upload stall and rewrites URLs. What is used is its `ResponseHandler`; this class closes the holes that remain
there:

- bytes that nobody asked for on a resting connection end it, so that they are never the answer to a later request;
- a parser error or a reset inside a body always reaches the reader of the body, and never swallows the head before it,
  nor, for who takes the pieces one by one, the part of the body that came with it;
- the head of an answer is bounded as a whole;
- an answer that comes before the request is written wakes the writer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns

from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader

MAX_LINE = 64 * 1024
MAX_HEADERS = 512
MAX_HEAD = 1024 * 1024
BUFFER = 256 * 1024

# 101 is none: nothing follows it.
_INTERIM = frozenset(range(100, 200)) - {101}
_END_OF_HEAD = b"\r\n\r\n"


class Truncated(Exception):
    """The connection ended within an answer."""


class Broken(Exception):
    """The answer is no HTTP that can be used."""


class Wire(ResponseHandler):
    """One connection to one origin, for one request at a time.

    Args:
        loop: the running loop.
        origin: whose connection it is, as text.
        forget: called when it is gone.

    Attributes:
        uses: requests begun on it.
        began: ns, monotonic, when the answer's first byte came; 0 before.
        heard: ns, monotonic, of the last byte.
        rested: since when it rests, ns, monotonic.
        expires: ns, monotonic; it is not used again after that.
        partly: called once when a part of a head is there, but not the whole.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, origin: str, forget: Callable[[Wire], None]) -> None:
        super().__init__(loop)
        self.origin = origin
        self.uses = 0
        self.began = self.heard = self.rested = self.expires = 0
        self.partly: Callable[[], None] | None = None
        self._forget = forget
        self._process = os.getpid()
        self._busy = False
        self._received = 0
        self._handed = 0
        self._skip = False
        self._answer_waits = False
        self._body: StreamReader | None = None
        self._part: bytearray | None = None

    def begin(self, *, head: bool) -> None:
        """Prepare for one request; `head` says that its answer has no body."""
        self.uses += 1
        self.began = self._received = self._handed = 0
        self._answer_waits = False
        self._body = None
        self._part = None
        self._busy = True
        self._skip = head
        self._parse_anew()

    def _parse_anew(self) -> None:
        self.set_response_params(
            skip_payload=self._skip,
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=BUFFER,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
        )

    def end(self) -> None:
        """Say that the answer is read; the connection rests."""
        self._busy = False
        self._body = self.partly = None

    def write(self, data: bytes | memoryview) -> bool:
        """Hand bytes to the socket; False when the connection has ended, then none were."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        transport.write(data)
        self._handed += len(data)
        return True

    async def flush(self) -> bool:
        """Wait until the kernel has taken everything that was handed over.

        Returns:
            False when the answer came first; the rest need not be sent then (RFC 9112 section 9.5).

        Raises:
            ConnectionError: the connection ended first, and no answer waits.
        """
        while self._paused and not self._answer_waits:
            await self._drain_helper()
            if self._exception is not None:
                raise self._exception
        if self.transport is None and not self._answer_waits:
            raise ConnectionResetError("the connection ended")
        return not self._paused

    @property
    def taken(self) -> int:
        """Bytes of this request that the kernel has taken."""
        transport = self.transport
        return self._handed - (transport.get_write_buffer_size() if transport is not None else 0)

    @property
    def inherited(self) -> bool:
        """Whether it is the parent process's: what its loop watches is shared, so closing it here would end it there."""
        return self._process != os.getpid()

    @property
    def partial(self) -> bool:
        """Whether a part of the next head came."""
        return self._part is not None

    async def answer(self) -> tuple[RawResponseMessage, StreamReader]:
        """Return the next head of an answer and its body's stream."""
        try:
            message, body = await self.read()
        except HttpProcessingError:
            if not self._buffer:
                raise
            message, body = await self.read()  # it was saved
        if message.code < 200:
            if not self._buffer:
                self.began = self.heard if self._part else 0
                self._received = len(self._part or b"")
        else:
            self._body = body
            lost = self._exception
            if lost is not None and not body.is_eof() and body.exception() is None:
                body.set_exception(lost)
        return message, body

    @staticmethod
    async def piece(body: StreamReader) -> bytes:
        """Return what came of a body, as soon as there is something; what broke it is raised behind that."""
        try:
            return await body.readany()
        except Exception:
            data = body._read_nowait(-1)  # noqa: SLF001 - its public methods raise before they give out what is there
            if data:
                return data
            raise

    def fail(self, error: Exception) -> None:
        """Wake whoever reads or writes with an error; the connection is not used again."""
        self.set_exception(error)
        if self._body is not None:
            self._body.set_exception(error)
        waiter, self._drain_waiter = self._drain_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def abort(self) -> None:
        """Close the connection at once; one whose loop is closed goes away with it, and the parent's stays as it is."""
        if self.inherited or self._loop.is_closed():
            self.transport = None
        else:
            super().abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take up the connection."""
        super().connection_made(transport)
        # With no room for unsent bytes, "not paused" means that the kernel has taken everything; with TLS, all but the
        # little that the loop's socket below it still holds. A loop's TLS pauses *at* its limit, so 0 would stop it for ever.
        assert self.transport is not None
        secure = self.transport.get_extra_info("sslcontext") is not None
        self.transport.set_write_buffer_limits(1 if secure else 0, 0)

    def data_received(self, data: bytes) -> None:
        """Parse what came and wake whom it concerns."""
        if not data:  # the parser goes on with what it kept
            super().data_received(data)
            return
        if not self._busy:
            self.abort()
            return
        self.heard = monotonic_ns()
        if not self.began:
            self.began = self.heard
        self._received += len(data)
        super().data_received(data)
        if self._body is not None:
            if self._exception is not None and not self._body.is_eof() and self._body.exception() is None:
                self._body.set_exception(self._exception)
        elif self._buffer:
            self._note_heads(data)
        elif self._exception is not None:
            self._save_head(bytes(self._part or b"") + data)
            self._wake_writer()
        elif self._received > MAX_HEAD:
            self.fail(Broken(f"the head of the answer is larger than {MAX_HEAD} bytes"))
        else:
            self._note_part(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End what is still being read; `exc` is None for an orderly end."""
        body = self._body if self._body is not None else self._payload
        if body is not None and exc is not None and not body.is_eof():
            # The parser takes any end for the end of a body that has no length; a reset is none.
            body.set_exception(Truncated("the connection was reset"))
        super().connection_lost(exc)
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(Truncated("the connection ended"))
        self._forget(self)

    def _note_part(self, data: bytes) -> None:
        if self._part is None:
            self._part = bytearray()
        self._part += data
        partly, self.partly = self.partly, None
        if partly is not None:
            partly()

    def _save_head(self, data: bytes) -> None:
        """Read again what the parser dropped because what came behind it, at the same time, is broken."""
        broken = self._parser
        self._parse_anew()
        parser, self._parser = self._parser, broken
        assert parser is not None
        head, mark, data = data.partition(_END_OF_HEAD)
        while mark and not self._buffer:
            try:
                messages, _, _ = parser.feed_data(head + mark)
            except HttpProcessingError:  # the head itself is broken, as was said already
                return
            for message, body in messages:
                if message.code >= 200:
                    self.feed_data((message, body), 0)
                    with suppress(HttpProcessingError):  # what is broken, once more
                        parser.feed_data(data)
            head, mark, data = data.partition(_END_OF_HEAD)

    def _note_heads(self, data: bytes) -> None:
        if self._buffer[-1][0][0].code not in _INTERIM:
            self._answer_waits = True
            self._wake_writer()
            return
        begun = (bytes(self._part or b"") + data).rpartition(_END_OF_HEAD)[2]
        self._part = bytearray(begun) if begun else None

    def _wake_writer(self) -> None:
        waiter = self._drain_waiter
        if waiter is not None and not waiter.done():
            self._drain_waiter = None
            waiter.set_result(None)
