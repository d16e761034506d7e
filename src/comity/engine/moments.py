"""Moments: points and lengths of time as messages tell them."""

from __future__ import annotations

from datetime import UTC, datetime

from comity.engine.clock import Clock


def moment(clock: Clock, at: int) -> datetime:
    """Return the time of day at which the monotonic time `at` (ns) falls."""
    return datetime.fromtimestamp((clock.wall() + at - clock.now()) / 1e9, UTC)


def until_text(until: datetime, left: float) -> str:
    """Return a moment (UTC) and how far off it is (seconds), for a message.

    Example:
        >>> until_text(datetime(2030, 1, 2, 12, tzinfo=UTC), 3600.0)
        '2030-01-02 12:00:00 UTC (3600 s from now)'
    """
    return f"{until:%Y-%m-%d %H:%M:%S} UTC ({seconds_text(left)} s from now)"


def seconds_text(seconds: float) -> str:
    """Return seconds to the millisecond, for a message.

    Example:
        >>> seconds_text(0.25), seconds_text(86400.0)
        ('0.25', '86400')
    """
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
