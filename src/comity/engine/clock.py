"""Clock: the only door to real time. Nothing else in comity reads a clock to decide a wait."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Wakeable(Protocol):
    """What a thread waits on: the part of `threading.Event` that is used."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None, /) -> bool: ...


class Clock(Protocol):
    """Time as the engine sees it. `comity.testing.VirtualClock` is another implementation."""

    def now(self) -> int:
        """Return monotonic time, ns."""

    def wall(self) -> int:
        """Return the time of day, ns since the epoch; it names moments to people and servers, and decides no wait."""

    def event(self) -> Wakeable:
        """Return a new event for `wait`."""

    def wait(self, event: Wakeable, until: int | None) -> None:
        """Block this thread until `event` is set or `until` (ns, None: no limit) has come."""


class RealClock:
    """The machine's monotonic clock; setting the time of day does not touch it."""

    now = staticmethod(time.monotonic_ns)
    wall = staticmethod(time.time_ns)

    def event(self) -> threading.Event:
        return threading.Event()

    def wait(self, event: Wakeable, until: int | None) -> None:
        event.wait(None if until is None else max(0, until - self.now()) / 1e9)


MONOTONIC: Clock = RealClock()
