"""Crowd: "too many at once", told apart from "too many per second".

Theory. A server that bounds concurrency refuses whoever comes on top, and hardly ever accepts a request that started
beside so many others. So a refusal of a request that started as the m-th at once, where at most 6 % of the last 100
successes did, sets a soft cap of m - 1. After 2 s in which it was reached one more is tried: a success removes the cap, a
refusal restores it and doubles the time to the next try, up to 60 s. A refusal that names a time is not of this kind: when
others end is nothing that a server knows.
"""

from __future__ import annotations

from collections import deque

from comity.policy.pause import NO_CAP

MEMORY = 100
RARE = 0.06
FIRST_WAIT, MOST_WAIT = 2_000_000_000, 60_000_000_000


class Crowd:
    """A soft cap on what runs at once."""

    __slots__ = ("_abreast", "_from", "_try_at", "_trying", "_wait", "cap")

    def __init__(self) -> None:
        self.cap = NO_CAP
        self._abreast: deque[int] = deque(maxlen=MEMORY)
        self._wait = FIRST_WAIT
        self._try_at = self._from = 0
        self._trying = False

    def begin(self, running: int, now: int) -> None:
        """Note a start, with `running` under way, itself included; it may be time to try one more."""
        if running >= self.cap and now >= self._try_at and not self._trying:
            self.cap += 1
            self._trying = True

    def accept(self, abreast: int) -> None:
        """Note a success that started with `abreast` under way, itself included."""
        self._abreast.append(abreast)
        if self._trying and abreast >= self.cap:
            self.cap = NO_CAP
            self._trying = False
            self._wait = FIRST_WAIT

    def refuse(self, rank: int, abreast: int, now: int, following: int) -> bool:
        """Judge the refusal of start `rank`; return whether its reason was: too many at once.

        Args:
            rank: of the start.
            abreast: how many were under way then, itself included.
            now: ns.
            following: the rank of the next start.
        """
        if self._trying and abreast >= self.cap:
            self._wait = min(MOST_WAIT, 2 * self._wait)
        elif abreast > self.cap and rank < self._from:
            return True  # it started before the cap was set
        elif abreast <= 1 or sum(each >= abreast for each in self._abreast) > RARE * len(self._abreast):
            return False
        self.cap = abreast - 1
        self._trying = False
        self._from = following
        self._try_at = now + self._wait
        return True
