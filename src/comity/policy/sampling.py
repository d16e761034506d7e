"""Sampling: the latencies of requests that all saw the same decision, gathered into one mean.

A sampling is the first n requests STARTED after a decision; whoever started before it saw another one. It is over when all
are back, or when nine in ten are and the rest take much longer than the others did: those stragglers count with their age,
as leaving them out would make every service with a slow mode look fast. What one latency scatters by, its noise, is
learned over all samplings; a few samples that happen to agree prove nothing.
"""

from __future__ import annotations

import math

BACK = 0.9
"""The share that has to be back before stragglers are given up."""
STRAGGLE = 2.0
"""How long stragglers are waited for: half a mean, and so many standard deviations."""
FIRST_NOISE = 0.3
"""The noise before any is known, as a share of the squared mean."""
MEMORY = 60
"""The weight of what is known about noise, in samples."""
QUIET = 0.01
"""Answers scatter by at least this share of the mean, however alike those were that came so far."""
GROWTH = 4.0
"""One sampling, which may have met a change of the service, raises the noise at most so many times."""


class Sampling:
    """The sampling under way.

    Attributes:
        noise: the variance of one latency, ns squared; 0 while unknown.
        peak: the most that was under way at once since it began.
        size: how many requests belong to it.
        count, mean: of the last one that was summed up.
    """

    __slots__ = (
        "_back", "_first", "_floor", "_last_at", "_need", "_square", "_sum", "_until", "count", "known", "mean", "noise", "peak", "size",
    )  # fmt: skip

    def __init__(self) -> None:
        self.noise = self.mean = 0.0
        self.count = self._last_at = 0
        self.open(0, 1, 0.0)

    def open(self, rank: int, size: int, floor: float) -> None:
        """Begin a new one of `size` starts, the first being `rank`; `floor` is the least mean to expect, ns."""
        self._floor = floor
        self._first, self.size, self._need = rank, size, math.ceil(BACK * size)
        self._back = self.known = self.peak = self._until = 0
        self._sum = self._square = 0.0

    def begin(self, rank: int, running: int, now: int) -> None:
        """Note start `rank`, with `running` under way, itself included."""
        self.peak = max(self.peak, running)
        if rank - self._first == self.size - 1:
            self._last_at = now

    def end(self, rank: int, latency: int | None, now: int) -> bool:
        """Note the end of start `rank`, with its latency if that tells anything; return whether the sampling is over."""
        if 0 <= rank - self._first < self.size:
            self._back += 1
            if latency is not None:
                self.known += 1
                self._sum += latency
                self._square += latency * latency
            if self._back == self.size:
                return True
            if self._back == self._need:
                mean = max(self._floor, self._sum / max(1, self.known))
                self._until = now + int(0.5 * mean + STRAGGLE * math.sqrt(self.noise))
        return 0 < self._until <= now

    def sum_up(self, now: int) -> None:
        """Take mean and noise of what is there; at least one latency is known."""
        count, total, square = self.known, self._sum, self._square
        if self._back >= self._need:
            missing, age = self.size - self._back, now - self._last_at
            count += missing
            total += missing * age
            square += missing * age * age
        mean = max(1.0, total / count)  # an answer takes some time, even where the clock is too coarse to tell
        if not self.noise:
            self.noise = FIRST_NOISE * mean * mean
        if count > 1:
            own = max(0.0, square / count - mean * mean) * count / (count - 1)
            self.noise += count / (count + MEMORY) * (min(own, GROWTH * self.noise) - self.noise)
        self.noise = max(self.noise, (QUIET * mean) ** 2)
        self.count, self.mean = count, mean
