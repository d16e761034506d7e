"""The limits a server may have, each exact in integer nanoseconds. Pure: `now` comes in.

They are written apart from comity's own limiter on purpose: a judge must not share its arithmetic with the judged.
"""

from __future__ import annotations

import heapq
from collections import deque
from fractions import Fraction
from typing import NamedTuple

SECOND = 1_000_000_000


class Verdict(NamedTuple):
    """What a limit says to one request.

    Attributes:
        accepted: whether it may pass.
        wait: ns until a place is free; 0 when accepted.
        remaining: how many more would pass at this moment.
        reset: ns until `remaining` grows again.
    """

    accepted: bool
    wait: int
    remaining: int
    reset: int


class SlidingWindow:
    """At most n accepted requests in any window of `per`; refused ones do not count.

    Args:
        per: length of the window in ns.
    """

    def __init__(self, per: int) -> None:
        self.per = per
        self._starts: deque[int] = deque()

    def admit(self, now: int, n: int) -> Verdict:
        """Judge a request that arrives at `now` (ns) under a limit of `n` >= 1; n may change between calls."""
        starts = self._starts
        while starts and now - starts[0] >= self.per:
            starts.popleft()
        if len(starts) >= n:
            # With n lowered since, more than one start must leave before a place is free.
            wait = starts[len(starts) - n] + self.per - now
            return Verdict(accepted=False, wait=wait, remaining=0, reset=wait)
        starts.append(now)
        return Verdict(accepted=True, wait=0, remaining=n - len(starts), reset=starts[0] + self.per - now)


class FixedWindow:
    """At most n accepted requests in each window; windows follow one another from the first request on.

    So up to 2n pass around a boundary, as with many servers.

    Args:
        per: length of the window in ns.
        anchor: when the first window begins, ns.
    """

    def __init__(self, per: int, anchor: int) -> None:
        self.per = per
        self._anchor = anchor
        self._index = 0
        self._used = 0

    def admit(self, now: int, n: int) -> Verdict:
        """Judge a request that arrives at `now` (ns) under a limit of `n` per window."""
        index, into = divmod(now - self._anchor, self.per)
        if index != self._index:
            self._index, self._used = index, 0
        reset = self.per - into
        if self._used >= n:
            return Verdict(accepted=False, wait=reset, remaining=0, reset=reset)
        self._used += 1
        return Verdict(accepted=True, wait=0, remaining=n - self._used, reset=reset)


class TokenBucket:
    """A bucket that starts full and fills at a steady rate; a request takes one token.

    Args:
        rate: tokens per second, above 0.
        burst: how many tokens it holds, at least 1.
        now: when it is made, ns.
    """

    def __init__(self, rate: Fraction, burst: int, now: int) -> None:
        self.rate, self.burst = rate, burst
        # Levels are whole numbers: one token is `_token` units, and a nanosecond brings `_gain` of them.
        self._gain = rate.numerator
        self._token = SECOND * rate.denominator
        self._level = burst * self._token
        self._at = now

    def admit(self, now: int) -> Verdict:
        """Judge a request that arrives at `now` (ns)."""
        full = self.burst * self._token
        self._level = min(full, self._level + (now - self._at) * self._gain)
        self._at = now
        if self._level < self._token:
            wait = -((self._level - self._token) // self._gain)
            return Verdict(accepted=False, wait=wait, remaining=0, reset=wait)
        self._level -= self._token
        remaining, part = divmod(self._level, self._token)
        return Verdict(accepted=True, wait=0, remaining=remaining, reset=-((part - self._token) // self._gain))


class Slots:
    """Workers that serve one request at a time each; others wait in line for the next that is free.

    Work that was started or queued is done even when its client goes away, as most servers do.
    """

    def __init__(self) -> None:
        self._free: list[int] = []
        self._starts: deque[int] = deque()

    def enter(self, now: int, *, workers: int, service: int, queue: int | None) -> int | None:
        """Give a request that arrives at `now` (ns) to the next free worker.

        Args:
            now: ns.
            workers: how many there are, at least 1; may change between calls.
            service: ns the work takes.
            queue: how many may wait; None for any number.

        Returns:
            When the work is done, ns; None when too many wait already.
        """
        self._resize(workers)
        while self._starts and self._starts[0] <= now:
            self._starts.popleft()
        start = max(now, self._free[0])
        if start > now:
            if queue is not None and len(self._starts) >= queue:
                return None
            self._starts.append(start)
        heapq.heapreplace(self._free, start + service)
        return start + service

    def _resize(self, workers: int) -> None:
        if len(self._free) != workers:
            # Fewer workers: those that are busy longest stay, so what they hold is still held.
            self._free = sorted(self._free)[-workers:] + [0] * (workers - len(self._free))
            heapq.heapify(self._free)
