"""A modelled upstream with endless work before it: starts and ends in virtual time, nothing else."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

from comity.policy.controller import Controller, Ending
from comity.policy.units import seconds

Answer = tuple[float, Ending, float | None]
"""How long it takes, seconds; how it ends; the wait that it names, seconds."""

Serve = Callable[[float, int], Answer]
"""Answers a request that starts at a time, seconds, as one of so many under way."""


class Traffic:
    """What a control made of an upstream.

    Attributes:
        now: seconds.
        starts: when requests started, seconds.
        endings: when and how they ended.
        caps: the cap after each end.
    """

    def __init__(self, control: Controller, serve: Serve) -> None:
        self.control, self.serve = control, serve
        self.now = 0.0
        self.running = 0
        self.starts: list[float] = []
        self.endings: list[tuple[float, Ending]] = []
        self.caps: list[tuple[float, int]] = []
        self._under_way: list[tuple[float, int, tuple[int, int, int], Answer]] = []

    def run(self, until: float) -> Traffic:
        """Go on until a time, seconds."""
        while True:
            self._start()
            wake = (self.control.until if self.running < self.control.cap else self.control.wake) / 1e9
            if self._under_way and self._under_way[0][0] <= max(wake, self.now):
                self._end()
            elif self.now < wake < until:
                self.now = wake + 1e-6
                if self.control.wake < seconds(self.now):
                    self.control.tick(seconds(self.now))
            else:
                self.now = until
                return self
            if self.now >= until:
                return self

    def good(self, since: float, until: float) -> float:
        """Return the good answers per second in a span."""
        return sum(since <= at < until for at, how in self.endings if how is Ending.OK) / (until - since)

    def refused(self, since: float, until: float) -> int:
        """Return how many were refused in a span."""
        return sum(since <= at < until for at, how in self.endings if how is Ending.REFUSED)

    def least_cap(self, since: float, until: float) -> int:
        """Return the smallest cap in a span."""
        return min(cap for at, cap in self.caps if since <= at < until)

    def _start(self) -> None:
        control = self.control
        while self.running < control.cap and control.until <= seconds(self.now):
            self.running += 1
            start = control.begin(self.running, seconds(self.now))
            answer = self.serve(self.now, self.running)
            self.starts.append(self.now)
            heapq.heappush(self._under_way, (self.now + answer[0], len(self.starts), start, answer))

    def _end(self) -> None:
        self.now, _, start, (took, ending, hint) = heapq.heappop(self._under_way)
        self.running -= 1
        wait = None if hint is None else seconds(hint)
        self.control.end(start, seconds(self.now), ending, seconds(took), wait)
        self.endings.append((self.now, ending))
        self.caps.append((self.now, self.control.cap))


def pool(workers: Callable[[float], int], service: Callable[[float], float], *, noise: float = 0.3) -> Serve:
    """Return an upstream of some workers with a queue before them.

    Args:
        workers: how many there are at a time; those that are gone finish what they are at.
        service: seconds that an answer takes a worker at a time, on average.
        noise: the spread of single ones.
    """
    chance, free = Random(7), [0.0]

    def serve(now: float, _running: int) -> Answer:
        while len(free) < workers(now):
            heapq.heappush(free, now)
        while len(free) > workers(now):
            free.remove(max(free))
        begins = max(now, heapq.heappop(free))
        ends = begins + service(now) * chance.lognormvariate(-noise * noise / 2, noise)
        heapq.heappush(free, ends)
        return ends - now + 0.001, Ending.OK, None

    return serve


def bucket(rate: Callable[[float], float], burst: float, *, hint: float | None = None) -> Serve:
    """Return an upstream that refuses what finds no token in its bucket."""
    chance, state = Random(7), [burst, 0.0]

    def serve(now: float, _running: int) -> Answer:
        state[0] = min(burst, state[0] + (now - state[1]) * rate(now))
        state[1] = now
        if state[0] < 1:
            return 0.005, Ending.REFUSED, hint
        state[0] -= 1
        return chance.uniform(0.05, 0.15), Ending.OK, None

    return serve


def window(limit: int, length: float, *, hint: bool = False) -> Serve:
    """Return an upstream that refuses more than `limit` in a fixed window."""
    used: dict[int, int] = {}

    def serve(now: float, _running: int) -> Answer:
        index = int(now / length)
        used[index] = used.get(index, 0) + 1
        if used[index] > limit:
            used[index] -= 1
            return 0.005, Ending.REFUSED, (index + 1) * length - now if hint else None
        return 0.1, Ending.OK, None

    return serve


def crowded(most: int) -> Serve:
    """Return an upstream that refuses what comes on top of so many at once."""
    chance, ends = Random(7), list[float]()

    def serve(now: float, _running: int) -> Answer:
        ends[:] = [end for end in ends if end > now]
        if len(ends) >= most:
            return 0.005, Ending.REFUSED, None
        ends.append(now + chance.uniform(0.5, 1.5))
        return ends[-1] - now, Ending.OK, None

    return serve
