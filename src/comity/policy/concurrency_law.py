"""ConcurrencyLaw: how many at once, learned from latency alone.

Theory. A service of c workers answers in its floor latency while at most c requests are under way; beyond that, latency
grows in proportion (Little's law), so L / ratio is c, whatever L is. The ratio is (mean - doubt) / floor of one sampling:
noise must not look like a queue, so the doubt is a standard error.

    slow start  double with every sampling, until the ratio (two standard errors in doubt) says that a queue began
    steady      busy (ratio over BUSY) twice in a row, or plainly so at once: L = max(L / 2, BUSY * L / ratio + h)
                else, if L was what held requests back: L += h for every L samples, within limits; after five calm ones
                L *= 1.25
    drain       the cap falls for a moment and the floor is measured anew (see `Drains`); if it rose, the service became
                slower, not busier: slow start again

With the same h, clients that share a service settle at equal shares: L = BUSY * L / ratio + h has the fixed point
h / (1 - BUSY / ratio). The closer BUSY is to 1, the less an error in one client's floor shifts its share. A cut that halved
L at a ratio far from 1 may have met a slower service: it asks for a drain soon, so a lasting shift never pins L.
"""

from __future__ import annotations

import math

from comity.policy.drains import Drains
from comity.policy.floor import Floor
from comity.policy.sampling import Sampling
from comity.policy.windows import NEVER

BUSY = 1.05
"""The ratio above which a queue is forming, ..."""
PLAIN = 1.8
"""... and plainly so."""
CALM = 1.02
"""The ratio up to which there is none."""
BREACHES = 2
"""Busy samplings in a row before a cut."""
CUT = 0.5
"""The deepest cut at once."""
SURE = 16
"""A slow start ends by a single busy sampling if it has so many samples."""
SLOW_DOUBT = 2.0
"""Standard errors of doubt in a slow start, which soon finds out anyway."""
MOST_STEP, LEAST_STEP, STEP_SHARE = 1.75, 0.5, 0.3
"""The step h: a share of L within bounds, ..."""
LARGE_SHARE = 0.04
"""... and for a large L, where so little would lead nowhere, this share."""
JUMP, CALM_JUMP = 0.15, 0.7
"""The most that one sampling of many rounds adds, as a share of L."""
CALM_ROW, LEAP = 5, 1.25
"""After so many calm samplings in a row L grows by that factor."""
LEAST, MOST = 4, 64
"""The size of a sampling is L within these, ..."""
NOISY = 0.05
"""... or more, until the standard error is this share of the floor, ..."""
STRETCH, ROUNDS = 6, 8
"""... up to so many times the size and so many times L."""


class ConcurrencyLaw:
    """The limit on what runs at once.

    Args:
        minimum, maximum, initial: of the limit; at least 1.
        now: ns.
        wall_offset: wall clock minus the clock of `now`, ns.

    Attributes:
        limit: L.
        width: how many may run now: L, or less during a drain.
        wake: when a drain is over, finished or not, ns; NEVER without one.
    """

    __slots__ = (
        "_breaches", "_calm", "_drains", "_floor", "_maximum", "_minimum", "_most", "_sampling", "_slow_start", "draining",
        "limit", "wake", "width",
    )  # fmt: skip

    def __init__(self, *, minimum: int, maximum: int, initial: int, now: int, wall_offset: int = 0) -> None:
        self._minimum, self._maximum = float(minimum), float(maximum)
        self.limit, self.width = float(initial), initial
        self._floor, self._sampling, self._drains = Floor(), Sampling(), Drains(now, wall_offset)
        self._slow_start, self.draining = True, False
        self.wake = NEVER
        self._breaches = self._calm = 0
        self._most = self.limit
        self._open(0)

    @property
    def floor(self) -> float:
        """The latency without a queue, ns; 0 while unknown."""
        return self._floor.mean

    @property
    def latency(self) -> float:
        """The mean of the last sampling, ns; 0 while unknown."""
        return self._sampling.mean

    def recall(self, limit: float) -> None:
        """Begin at another limit; nothing has started yet."""
        self._set(limit)
        self._most = self.limit
        self._widen()
        self._open(0)

    def begin(self, rank: int, running: int, now: int) -> None:
        """Note a start: the `rank`th, with `running` under way, itself included."""
        self._sampling.begin(rank, running, now)
        if now >= self._drains.at:
            self.draining = True
            self._widen()
            size = self._open(rank + 1)
            self._drains.begin(now, self.width, size, self.floor, self.latency)
            self.wake = self._drains.late

    def end(self, rank: int, latency: int | None, now: int, following: int) -> None:
        """Note the end of start `rank`.

        Args:
            rank: as at `begin`.
            latency: ns; None when it taught nothing.
            now: ns.
            following: the rank of the next start.
        """
        if self._sampling.end(rank, latency, now):
            self._sum_up(now, following)
        elif now > self.wake:
            self._sum_up(now, following, enough=LEAST)

    def tick(self, now: int, following: int) -> None:
        """End a drain whose time is up: that of `wake`."""
        self._sum_up(now, following, enough=LEAST)

    def cut(self, factor: float, following: int) -> None:
        """Cut because of failures."""
        self._slow_start = False
        self._set(factor * self._used())
        self._open(following)

    def restart(self, following: int) -> None:
        """Start slowly again, after an outage."""
        self._slow_start = True
        self._undrain()
        self._set(min(self.limit, 2.0))
        self._open(following)

    # ---- decisions

    def _sum_up(self, now: int, following: int, *, enough: int = 1) -> None:
        """Decide by the sampling if it has that many latencies, and begin the next."""
        if self._sampling.known >= enough:
            self._sampling.sum_up(now)
            self._decide(now)
        self._undrain()
        self._open(following)

    def _decide(self, now: int) -> None:
        sampling, floor = self._sampling, self._floor
        mean, count, noise = sampling.mean, sampling.count, sampling.noise
        if self.draining:
            if floor.measure(mean, count, noise):
                self._slow_start = True
                self._breaches = self._calm = 0
            self._most = self.limit
            return
        if not floor.mean:
            floor.begin(mean, count)
        vague = self._slow_start or not floor.idle
        doubt = math.sqrt(noise / count + (noise / floor.samples if vague else 0.0))
        ratio = (mean - (SLOW_DOUBT if self._slow_start else 1.0) * doubt) / floor.mean
        if ratio > BUSY:
            self._busy(ratio, now)
            return
        self._breaches = 0
        if self._slow_start:
            floor.sharpen(mean, count, noise)
        else:
            floor.bound(mean, count, noise)
        self._free(ratio)

    def _free(self, ratio: float) -> None:
        """Grow, if the limit was what held requests back."""
        self._calm = self._calm + 1 if ratio <= CALM else 0
        if self._sampling.peak < self.width:
            return
        if self._slow_start:
            self._set(self.limit * 2)
        else:
            step = self._step()
            most = max(step, (CALM_JUMP if ratio <= CALM else JUMP) * self.limit)
            self._set(self.limit + min(most, step * self._sampling.size / self._base()))
            if self._calm >= CALM_ROW:
                self._calm = 0
                self._set(self.limit * LEAP)
        self._most = max(self._most, self.limit)

    def _busy(self, ratio: float, now: int) -> None:
        """Cut, when it is no chance."""
        self._calm = 0
        self._breaches += 1
        sure = ratio > PLAIN or (self._slow_start and self._sampling.count >= SURE)
        if self._breaches < BREACHES and not sure:
            return
        self._breaches = 0
        self._slow_start = False
        used = self._used()
        self._set(max(CUT * used, BUSY * used / ratio + self._step()))
        if ratio > PLAIN and self.limit <= CUT * self._most:
            self._drains.want(now)

    # ---- helpers

    def _used(self) -> float:
        """Return what of the limit was in use."""
        return min(self.limit, max(1.0, self._sampling.peak))

    def _step(self) -> float:
        limit = self.limit
        return max(LARGE_SHARE * limit, min(MOST_STEP, max(LEAST_STEP, STEP_SHARE * limit)))

    def _set(self, limit: float) -> None:
        self.limit = min(self._maximum, max(self._minimum, limit))
        self._widen()

    def _widen(self) -> None:
        self.width = max(int(self._minimum), Drains.width(self.limit)) if self.draining else int(self.limit)

    def _undrain(self) -> None:
        if self.draining:
            self.draining = False
            self.wake = NEVER
            self._widen()

    def _base(self) -> int:
        return min(MOST, max(LEAST, self.width))

    def _open(self, rank: int) -> int:
        """Begin a new sampling with start `rank`; return its size."""
        size, floor = self._base(), self._floor.mean
        wanted = int(self._sampling.noise / (NOISY * floor) ** 2) if floor else 0
        if self.draining:
            size = Drains.size(self.width, floor, wanted)
        elif not self._slow_start:
            size = max(size, min(STRETCH * size, wanted, ROUNDS * self.width))
        self._sampling.open(rank, size, floor)
        return size
