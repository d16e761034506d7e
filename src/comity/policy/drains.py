"""Drains: when the load is taken down for a moment, so that the floor can be measured, how far, and for how long.

They come at multiples of 15 s of the wall clock: clients that know nothing of each other, but have the right time, drain
together, and so see the floor and not each other's queues. A drain takes a ninth of that at most; where even a few answers
take longer, the period doubles until they do not. One that is wanted sooner comes at a multiple of an eighth of it.
"""

from __future__ import annotations

PERIOD = 15_000_000_000
SHARE = 9
"""The period over the longest drain."""
SOONER = 8
"""The period over that of a drain that is wanted sooner."""
TO = 0.45
"""The share of the limit that a drain leaves."""
SMALL = 6
"""A smaller limit is drained down to one at a time."""
LEAST = 4
"""The fewest samples of a drain, ..."""
USUAL, MOST = 16, 64
"""... as many as the width but within these, if time allows, and ..."""
STRETCH = 4
"""... up to so many times more when latencies are noisy."""
PATIENCE = 3
"""A drain ends unfinished after so many times its planned length, or after ..."""
LEAST_PATIENCE = 2_000_000_000


class Drains:
    """The plan of drains.

    Args:
        now: ns.
        wall_offset: wall clock minus the clock of `now`, ns.

    Attributes:
        at: when the next one comes.
        late: when the present one is over, finished or not.
    """

    __slots__ = ("_offset", "at", "late")

    def __init__(self, now: int, wall_offset: int) -> None:
        self._offset = wall_offset
        self.at = self._next(now, PERIOD)
        self.late = 0

    @staticmethod
    def width(limit: float) -> int:
        """Return how many a drain leaves running."""
        return max(1, int(TO * limit)) if limit >= SMALL else 1

    @staticmethod
    def size(width: int, floor: float, wanted: int) -> int:
        """Return how many samples a drain takes.

        Args:
            width: as above.
            floor: ns; 0 while unknown.
            wanted: as many as noise asks for.
        """
        if not floor:
            return LEAST
        usual = min(MOST, max(USUAL, width))
        return max(LEAST, min(STRETCH * usual, max(usual, wanted), int(width * (PERIOD / SHARE / floor - 1))))

    def begin(self, now: int, width: int, size: int, floor: float, latency: float) -> None:
        """Note that one begins, and plan the next."""
        rounds = 1 + size / width
        period = PERIOD
        while period < SHARE * rounds * floor:
            period *= 2
        self.at = self._next(now, period)
        self.late = now + max(LEAST_PATIENCE, int(PATIENCE * rounds * max(floor, latency)))

    def want(self, now: int) -> None:
        """Let the next one come sooner."""
        self.at = min(self.at, self._next(now, PERIOD // SOONER))

    def _next(self, now: int, period: int) -> int:
        return now + period - (now + self._offset) % period
