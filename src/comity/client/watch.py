"""Watch: one rolling timer that holds an attempt to its limits.

Phases follow one another, so one timer is enough: each phase says which limit runs out first, and a timer that fires
before that arms itself for the rest. It is created again only when a phase ends sooner than the one before.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns

from comity.client.wire import Wire
from comity.policy.timeouts import Timeout

_MS = 1_000_000

End = tuple[int, str, int]
"""When a limit runs out (ns, monotonic), its name, and its length (ns)."""


class Expired(Exception):
    """A limit ran out.

    Args:
        phase: its name in `Timeout`, or "deadline".
        limit: its length, ns.
    """

    def __init__(self, phase: str, limit: int) -> None:
        super().__init__(phase, limit)
        self.phase, self.limit = phase, limit


class Watch:
    """The limits of one attempt.

    Args:
        loop: the running loop.
        timeout: the limits of the phases and of the attempt.
        began: when the attempt began, ns, monotonic.
        left: within how long it has to be over, ns, or None.
    """

    __slots__ = (
        "_began", "_due", "_fixed", "_handle", "_loop", "_moved", "_overall", "_rolling", "_taken", "_timeout", "_wire",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: Timeout, began: int, left: int | None) -> None:
        self._loop = loop
        self._timeout = timeout
        self._began = began
        self._wire: Wire | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._due = self._moved = 0
        self._taken: int | None = None  # bytes that the peer had taken at `_moved`, while it is written to
        self._rolling: int | None = None
        self._overall: End | None = None if left is None else (began + left, "deadline", left)
        self._overall = self._sooner(self._overall, began, "attempt", timeout.attempt_ns)
        self._fixed = self._overall

    def connecting(self) -> End | None:
        """Return the first limit that would end connecting, None when there is none."""
        first = self._sooner(self._overall, self._began, "connect", self._timeout.connect_ns)
        return self._sooner(first, self._began, "request", self._timeout.request_ns)

    def sending(self, wire: Wire, now: int) -> None:
        """Hold the writing of the request to `send` and `request`, and every standstill of it to `idle`."""
        first = self._sooner(self._overall, now, "send", self._timeout.send_ns)
        self._fixed = self._sooner(first, self._began, "request", self._timeout.request_ns)
        self._rolling, self._taken = self._timeout.idle_ns, wire.taken
        self._set(wire, now)

    def wrote(self, wire: Wire) -> None:
        """Say that the peer took what was written before, and that more was: no standstill until now."""
        self._moved, self._taken = monotonic_ns(), wire.taken

    def waiting(self, wire: Wire, now: int) -> None:
        """Hold the wait for the answer's first byte to `response`, and every pause between it and the body to `idle`."""
        if wire.partial:
            self.reading(wire, now)
            return
        self._fixed = self._sooner(self._overall, now, "response", self._timeout.response_ns)
        self._rolling = self._taken = None
        wire.partly = self._partly
        self._set(wire, now)

    def reading(self, wire: Wire, now: int) -> None:
        """Hold every pause between two reads of the body to `idle`."""
        self._fixed = self._overall
        self._rolling, self._taken = self._timeout.idle_ns, None
        self._set(wire, now)

    def check(self, now: int) -> None:
        """Refuse to go on after the attempt's end; while nobody reads, no timer runs.

        Raises:
            Expired: it has passed.
        """
        if self._overall is not None and self._overall[0] <= now:
            raise Expired(self._overall[1], self._overall[2])

    def stop(self) -> None:
        """End the watch."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    @staticmethod
    def _sooner(first: End | None, since: int, name: str, limit: int | None) -> End | None:
        if limit is None or (first is not None and first[0] <= since + limit):
            return first
        return since + limit, name, limit

    def _partly(self) -> None:
        """Go over from `response` to `idle`: the head has begun and is still on its way."""
        wire = self._wire
        assert wire is not None
        self.reading(wire, wire.heard)

    def _set(self, wire: Wire, now: int) -> None:
        self._wire, self._moved = wire, now
        end = self._sooner(self._fixed, now, "idle", self._rolling)
        if end is None:
            self.stop()
        elif self._handle is None or end[0] < self._due:
            self.stop()
            self._start(end[0], now)

    def _start(self, due: int, now: int) -> None:
        self._due = due
        # Loops round to the millisecond, some of them down: a timer that fires early is armed again.
        self._handle = self._loop.call_later(max(due - now, _MS) / 1e9, self._fire)

    def _fire(self) -> None:
        self._handle = None
        wire, now = self._wire, monotonic_ns()
        assert wire is not None
        if self._taken is not None and wire.taken > self._taken:
            self._taken, self._moved = wire.taken, now
        end = self._sooner(self._fixed, max(self._moved, wire.heard), "idle", self._rolling)
        if end is None:
            return
        if now < end[0]:
            self._start(end[0], now)
        else:
            wire.fail(Expired(end[1], end[2]))
