"""The clock of a store that lives in this process: the wall clock's time when it was opened, and steady from then on.

Leases and retries are lengths of time: a wall clock that is set forward would take every lease from its worker, one that is
set back would hold every retry up. A correction of the wall clock counts from the next opening. While the machine sleeps time
goes on, as what waits for a time of day would be late by that ever after.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# What time.monotonic reads counts sleep on Windows, on Linux it does not.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def uptime() -> int:
    """Return the time since this machine was started, ns, its sleep included where it tells that (Linux, by CLOCK_BOOTTIME)."""
    return time.monotonic_ns() if _BOOTTIME is None else time.clock_gettime_ns(_BOOTTIME)


def steady(wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = uptime) -> Callable[[], int]:
    """Return a clock in ns since the epoch that is never set.

    Example:
        >>> clock = steady(wall=lambda: 5_000, monotonic=iter([70, 71, 99]).__next__)
        >>> clock(), clock()
        (5001, 5029)
    """
    offset = wall() - monotonic()
    return lambda: offset + monotonic()
