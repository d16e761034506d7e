"""One connection to the upstream: reads requests, logs them, sends their answers, and breaks when told to.

    idle --head read--> body --body read--> due --delay over--> sending --last piece--> idle, closed, reset or silent

One request at a time: while it is in the works, bytes that come behind it wait in the buffer. All of it is callbacks of
one loop and there is no task, so a connection that hangs costs nothing and is gone as soon as it is aborted.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Protocol, cast

from comity.testing.upstream.answers import CRLF, Answer, End, text
from comity.testing.upstream.exchange import Exchange
from comity.testing.upstream.journal import Arrival, Count, Journal
from comity.testing.upstream.paths import KEYED, NEEDS_BODY, Paths
from comity.testing.upstream.plain import MAX_BODY
from comity.testing.upstream.wire import BadRequest, Body, Head, take_head

_CAPTURED = 64 * 1024
_BUFFERED = 256 * 1024
# Pieces sent in one go before other connections get their turn.
_TURN = 32
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Abortable(Protocol):
    """What an upstream that is being closed has to end."""

    def abort(self) -> None:
        """Close at once, whatever is in the works."""


class Hub:
    """What the connections of one upstream share.

    Args:
        journal: where requests are logged.
        paths: who answers them.
        capture: whether header fields and bodies are logged too.
        keep_alive: seconds after which an idle connection is closed; None for never.
        changed: called after each arrival, each end of an answer and each end of a connection.
    """

    def __init__(
        self,
        journal: Journal,
        paths: Paths,
        *,
        capture: bool,
        keep_alive: float | None,
        changed: Callable[[], None],
    ) -> None:
        self.journal = journal
        self.paths = paths
        self.capture = capture
        self.keep_alive = keep_alive
        self.changed = changed
        self.open: set[Abortable] = set()
        self.closing = False
        self._date = (0, b"")

    def date(self) -> bytes:
        """Return the Date field of this second (RFC 9110 6.6.1)."""
        now = int(time.time())
        if now != self._date[0]:
            self._date = now, b"Date: %b\r\n" % formatdate(now, usegmt=True).encode()
        return self._date[1]


class Connection(asyncio.Protocol):
    """The server's side of one connection.

    Args:
        hub: what it shares with the others.
        loop: the loop it lives on.
    """

    __slots__ = (
        "_answer", "_arrival", "_body", "_buffer", "_busy", "_counters", "_exchange", "_half", "_head", "_hub", "_idle",
        "_loop", "_number", "_paused", "_piece", "_timer", "_transport",
    )  # fmt: skip

    def __init__(self, hub: Hub, loop: asyncio.AbstractEventLoop) -> None:
        self._hub = hub
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._number = 0
        self._buffer = bytearray()
        self._paused = False
        self._half = False
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._reset()

    def connection_made(self, base: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        transport = cast("asyncio.Transport", base)  # what a loop passes here need not inherit from it
        self._transport = transport
        self._hub.open.add(self)
        self._number = self._hub.journal.opened()
        if self._hub.closing:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, or keep the bytes while a request is in the works."""
        self._buffer += data
        if not self._busy:
            self._advance()
        elif len(self._buffer) > _BUFFERED and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Answer what a client asked before it closed its half of the connection (RFC 9112 9.6), then close.

        It may have gone altogether: what would never be answered ends here, the rest when writing fails.
        """
        transport = self._transport
        if transport is None or transport.get_extra_info("ssl_object") is not None:  # TLS knows no half
            return False
        self._half = True
        if not self._busy:
            self._advance()
        return self._answer is None or self._answer.end is not End.HANG

    def pause_writing(self) -> None:
        """Send no further pieces: the client reads more slowly than they are made."""
        self._paused = True

    def resume_writing(self) -> None:
        """Send on."""
        self._paused = False
        if self._piece is not None and self._timer is None:
            self._send_more()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        """Forget the connection; a request in the works is logged as lost."""
        self._stop_timers()
        if self._transport is not None:
            self._transport = None
            self._hub.open.discard(self)
            self._hub.journal.closed()
        self._leave(complete=False)
        self._hub.changed()

    def abort(self) -> None:
        """Close at once, whatever is in the works."""
        self._stop_timers()
        if self._transport is not None:
            self._transport.abort()

    def _reset(self) -> None:
        self._head: Head | None = None
        self._body: Body | None = None
        self._exchange: Exchange | None = None
        self._arrival: Arrival | None = None
        self._counters: tuple[Count, ...] = ()
        self._answer: Answer | None = None
        self._piece: bytes | None = None
        self._busy = False

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._idle):
            if timer is not None:
                timer.cancel()
        self._timer = self._idle = None

    def _advance(self) -> None:
        """Read the next request as far as its bytes are there."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._busy:
            return
        try:
            if self._head is None:
                head = take_head(self._buffer)
                if head is None:
                    self._wait_for_more(transport)
                    return
                self._arrive(head)
            if self._body is not None and not self._body.take(self._buffer):
                self._wait_for_more(transport)
                return
        except BadRequest as bad:
            self._refuse(bad)
            return
        self._due()

    def _wait_for_more(self, transport: asyncio.Transport) -> None:
        if self._half:  # nothing more comes
            transport.close()

    def _arrive(self, head: Head) -> None:
        at = time.monotonic_ns()
        self._head = head
        exchange = self._exchange = Exchange(head, at)
        hub = self._hub
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        name = exchange.name
        if not name.startswith("_"):
            arrival = self._arrival = Arrival(at, self._number, head.method, head.target, exchange.key, head.host)
            if hub.capture:
                arrival.headers = head.pairs()
            key = f"/{name}/{exchange.rest}" if name in KEYED else None
            self._counters = hub.journal.arrived(arrival, f"/{name}", key)
        if name not in NEEDS_BODY:
            self._answer = hub.paths.answer(exchange)
        if head.length:
            keep = MAX_BODY if name in NEEDS_BODY else _CAPTURED if hub.capture else 0
            self._body = Body(head.length, keep=keep)
            if head.expects and self._transport is not None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._arrival is not None:
            hub.changed()

    def _refuse(self, bad: BadRequest) -> None:
        """Answer what cannot be read, and close: where the next request would begin is unknown."""
        self._buffer.clear()
        if self._head is None:
            self._head = Head("", "", 0, keep_alive=False, expects=False, host="", fields=b"")
        self._answer = text(bad.status, f"{bad}\n")
        self._answer.end = End.ANNOUNCED
        self._send()

    def _due(self) -> None:
        """Send the answer as soon as its delay, counted from the arrival, is over."""
        self._busy = True
        exchange, body = self._exchange, self._body
        assert exchange is not None
        if body is not None and self._arrival is not None and self._hub.capture:
            self._arrival.body = bytes(body.data[:_CAPTURED])
        if self._answer is None:
            if body is not None:
                exchange.body = bytes(body.data)
            whole = body is None or body.size <= MAX_BODY
            self._answer = self._hub.paths.answer(exchange) if whole else text(413, f"more than {MAX_BODY} bytes\n")
        if self._answer.delay:
            self._wait()
        else:
            self._send()

    def _wait(self) -> None:
        assert self._answer is not None
        assert self._exchange is not None
        self._timer = None
        left = self._exchange.at + self._answer.delay - time.monotonic_ns()
        # A loop's timers may fire up to a millisecond early; an answer must not.
        if left > 0:
            self._timer = self._loop.call_later(left / 1e9, self._wait)
        else:
            self._send()

    def _send(self) -> None:
        self._busy = True
        answer, head, transport = self._answer, self._head, self._transport
        assert answer is not None
        assert head is not None
        if transport is None or transport.is_closing():
            return
        bodiless = head.method == "HEAD"
        if answer.head:
            end = CRLF
            if answer.end is End.ANNOUNCED or (answer.end is End.KEEP and not head.keep_alive):
                answer.end = End.ANNOUNCED
                end = b"Connection: close\r\n\r\n"
            elif self._hub.keep_alive is not None:
                end = b"Keep-Alive: timeout=%d\r\n\r\n" % self._hub.keep_alive
            if self._arrival is not None:
                self._arrival.status = answer.status
                self._arrival.first_byte = time.monotonic_ns()
            transport.write(answer.head + self._date(answer) + end + (b"" if bodiless else answer.body))
        self._piece = next(answer.more, None) if answer.more is not None and not bodiless else None
        if self._piece is None:
            self._end()
        elif answer.gap:
            self._timer = self._loop.call_later(answer.gap / 1e9, self._send_more)
        else:
            self._send_more()

    def _date(self, answer: Answer) -> bytes:
        # A request may have asked for a Date of its own.
        asked = self._exchange is not None and bool(self._exchange.params)
        return b"" if asked and b"\r\ndate:" in answer.head.lower() else self._hub.date()

    def _send_more(self) -> None:
        """Send the next pieces: one when a gap follows each, else some, while the client keeps up."""
        self._timer = None
        answer, transport = self._answer, self._transport
        assert answer is not None
        assert answer.more is not None
        if transport is None or transport.is_closing():
            return
        for _ in range(_TURN):
            if self._paused:
                return
            assert self._piece is not None
            transport.write(self._piece)
            self._piece = next(answer.more, None)
            if self._piece is None:
                self._end()
                return
            if answer.gap:
                self._timer = self._loop.call_later(answer.gap / 1e9, self._send_more)
                return
        self._timer = self._loop.call_soon(self._send_more)

    def _end(self) -> None:
        """Do with the connection what the answer says."""
        answer, transport = self._answer, self._transport
        assert answer is not None
        assert transport is not None
        if answer.end is End.KEEP:
            self._leave(complete=True)
            self._next()
        elif answer.end is End.RESET:
            if answer.gap:
                self._timer = self._loop.call_later(answer.gap / 1e9, self._break)
            else:
                self._break()
        elif answer.end is not End.HANG:
            self._leave(complete=True)
            transport.close()
        elif self._half:
            transport.close()
        self._hub.changed()

    def _next(self) -> None:
        transport = self._transport
        assert transport is not None
        transport.resume_reading()
        if self._buffer or self._half:
            # Not at once: a client that sends many requests ahead must not keep the loop for itself.
            self._loop.call_soon(self._advance)
        elif self._hub.keep_alive is not None:
            self._idle = self._loop.call_later(self._hub.keep_alive, transport.close)

    def _break(self) -> None:
        """Send RST: closing with a linger time of 0 makes the kernel do so."""
        self._timer = None
        transport = self._transport
        if transport is None:
            return
        self._leave(complete=True)
        # The option belongs to the socket, not to the descriptor, so a copy of that serves every event loop's transports.
        with socket.fromfd(transport.get_extra_info("socket").fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        transport.abort()

    def _leave(self, *, complete: bool) -> None:
        """Log the end of the request in the works, and be ready for the next."""
        arrival = self._arrival
        if arrival is not None:
            arrival.finished = time.monotonic_ns()
            self._hub.journal.left(self._counters, arrival.status, complete=complete)
        self._reset()
