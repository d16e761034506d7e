"""Clock: the engine's only door to real time, so that every wait of a limit or a retry can be played in virtual time."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Protocol


class Signal(Protocol):
    """What one thread waits on."""

    def set(self) -> None:
        """Wake the thread that waits, or that will wait next; from any thread, at any moment."""

    def clear(self) -> None:
        """Forget that it was set."""

    def wait(self, until: int | None) -> None:
        """Block this thread until it is set or `until` (ns, None: no limit) has come."""


class Clock(Protocol):
    """Time as the engine sees it. `comity.testing.VirtualClock` is another implementation."""

    def now(self) -> int:
        """Return monotonic time, ns."""

    def wall(self) -> int:
        """Return the time of day, ns since the epoch; it names moments to people and servers, and decides no wait."""

    def signal(self) -> Signal:
        """Return a new signal, whose `wait` goes by this clock."""


class RealClock:
    """The machine's monotonic clock; setting the time of day does not touch it."""

    now = staticmethod(time.monotonic_ns)
    wall = staticmethod(time.time_ns)

    def signal(self) -> Signal:
        return RealSignal()


class RealSignal:
    """A `threading.Event` for one thread, without the lock that each of those holds inside.

    So it can be set by a destructor, which may run in the midst of `wait`.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it is set already
            self._lock.release()

    def clear(self) -> None:
        self._lock.acquire(blocking=False)

    def wait(self, until: int | None) -> None:
        if until is None:
            self._lock.acquire()
            return
        while (left := until - time.monotonic_ns()) > 0:
            if self._lock.acquire(timeout=min(left / 1e9, threading.TIMEOUT_MAX)):
                return


MONOTONIC: Clock = RealClock()
