"""Pool: the connections of one event loop, opened when needed and kept while they are fresh.

There is no queue and no bound here: the limiter in front is the only one. The connection that rested the shortest is
taken first, so that the others grow old and are closed. An announced `Keep-Alive: timeout=N` is honoured with a margin,
because a request that meets the server's own close is lost.
"""

from __future__ import annotations

import asyncio
import re
import select
from time import monotonic_ns
from weakref import WeakSet

from comity.client.address import Origin
from comity.client.dial import Dialer
from comity.client.stopwatch import Stopwatch
from comity.client.wire import Wire

KEEP_NS = 15_000_000_000
"""How long a connection rests, ns, when its server announces nothing."""

_RESTED_NS = 1_000_000
_SWEEP_NS = 100_000_000
_NEVER = 1 << 63
_CLOSE_LIMIT = 1.0
_KEEP_ALIVE = re.compile(r"(?:^|[\s,])timeout=([0-9]{1,9})(?:$|[\s,])", re.IGNORECASE)


class Pool:
    """The connections of one event loop.

    Args:
        loop: the running loop.
        dialer: opens them; straight, trusting what the system trusts, unless given. A pool has one dialer for good, so
            no connection is used under other TLS options or another proxy than it was opened with.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dialer: Dialer | None = None) -> None:
        self.loop = loop
        self.dialer = dialer or Dialer()
        self._resting: dict[str, list[Wire]] = {}
        # Weak: a connection in use belongs to its loop and its task. When a loop is closed in the midst of it, they can
        # all be forgotten together, and the task gives back what it holds.
        self._open: WeakSet[Wire] = WeakSet()
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_at = _NEVER
        self._emptied: asyncio.Future[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def take(self, origin: Origin, now: int) -> Wire | None:
        """Return a connection that rests and is still good, or None."""
        resting = self._resting.get(origin.text)
        while resting:
            wire = resting.pop()
            if wire.is_connected() and now < wire.expires and not _stirred(wire, now):
                return wire
            wire.abort()
        return None

    async def dial(self, origin: Origin, time: Stopwatch) -> Wire:
        """Open a connection; `time` learns how long each phase took.

        Raises:
            OSError: the name is unknown, nobody listens, TLS failed, or a proxy opened no tunnel.
        """
        wire = Wire(self.loop, origin.text, self._forget)
        await self.dialer.dial(origin, time, wire)
        # Only now: uvloop ends a connection whose opening was cancelled without a word to its protocol.
        if wire.transport is not None:
            self._open.add(wire)
        return wire

    def give_back(self, wire: Wire, keep_alive: str | None, now: int) -> None:
        """Let a connection rest whose answer was read, or close it when it must not be used again."""
        if self._closed or wire.should_close:
            wire.abort()
            return
        wire.end()
        wire.rested = now
        wire.expires = now + _lifetime(keep_alive)
        self._resting.setdefault(wire.origin, []).append(wire)
        if wire.expires < self._sweep_at:
            self._sweep_by(wire.expires, now)

    async def aclose(self) -> None:
        """Close every connection and wait until the sockets are gone, at most a second."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._resting.clear()
        for wire in list(self._open):
            wire.abort()
        if self._open:
            self._emptied = self.loop.create_future()
            await asyncio.wait([self._emptied], timeout=_CLOSE_LIMIT)

    def _forget(self, wire: Wire) -> None:
        self._open.discard(wire)
        if not self._open and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _sweep(self) -> None:
        """Close what rested too long."""
        now, self._sweep_at = monotonic_ns(), _NEVER
        for origin, resting in list(self._resting.items()):
            for wire in resting:
                if now >= wire.expires:
                    wire.abort()
            kept = [wire for wire in resting if wire.is_connected()]
            if kept:
                self._resting[origin] = kept
            else:
                del self._resting[origin]
        if self._resting:
            self._sweep_by(min(wire.expires for resting in self._resting.values() for wire in resting), now)

    def _sweep_by(self, due: int, now: int) -> None:
        """Sweep when the first connection is due: one timer for all, that of a busy pool at most every `_SWEEP_NS`."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_at = max(due, now + _SWEEP_NS)
        self._sweeper = self.loop.call_later((self._sweep_at - now) / 1e9, self._sweep)


def _lifetime(keep_alive: str | None) -> int:
    """Return how long a connection may rest, ns: less than the server announced, by half a second or a tenth."""
    found = _KEEP_ALIVE.search(keep_alive) if keep_alive else None
    if found is None:
        return KEEP_NS
    announced = int(found[1]) * 1_000_000_000
    return min(KEEP_NS, max(0, announced - max(500_000_000, announced // 10)))


def _stirred(wire: Wire, now: int) -> bool:
    """Tell whether something (most likely the peer's close) waits unread on a connection that rested.

    The loop may not have come to it yet; one look at the socket is cheaper than a lost request. A connection that has
    been used again before and rested for a moment only is trusted without it.
    """
    if wire.transport is None or (wire.uses > 1 and now - wire.rested < _RESTED_NS):
        return False
    sock = wire.transport.get_extra_info("socket")
    return sock is not None and _readable(sock.fileno())


def _readable(fd: int) -> bool:
    if not hasattr(select, "poll"):  # Windows; there the loop alone notices
        return False
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
