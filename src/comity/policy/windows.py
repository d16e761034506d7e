"""Meters: how much of a rate is taken at a moment, and when there is room again.

Theory. A rate of n per P promises that no window of length P, wherever it begins, sees more than n starts. A meter
therefore keeps every start until P later. Between the decision to start (the grant) and the start itself (the first byte,
or the answer where the server's clock is what counts) time passes that nobody knows in advance, so a grant is *reserved*:
it is taken, but its end is unknown until `start` says when it began. That is what makes the promise exact on the wire and
not only inside this process. A reserved entry that never started is undone and leaves no trace.

All times are integer nanoseconds and all arithmetic is exact: a float loses the edge of a window.
Windows are half-open: a start at t and one at t + P are not in one window.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from comity.policy.rate import Rate

NEVER = 1 << 62
"""A time that does not come by itself: something else has to happen first."""

EXACT_UP_TO = 100_000
"""Above this many starts per window they are kept in sub-buckets, GRAINS to a window, dated by their last start."""

GRAINS = 4096

KEPT = 64
"""About so many entries of a window are told of, each dated by the last start in it."""


class Meter(Protocol):
    """What the limiter asks of every kind of rate."""

    def earliest(self, now: int, cost: int, /) -> int:
        """Return when `cost` may be reserved: `now`, a later time, or NEVER (first another entry must start or go)."""

    def reserve(self, cost: int, /) -> None:
        """Take `cost` for a grant that has not started yet."""

    def undo(self, cost: int, /) -> None:
        """Give back what was reserved and never started."""

    def start(self, now: int, cost: int, /) -> int:
        """Date a reserved entry; return its mark for `settle`."""

    def settle(self, mark: int, change: int, /) -> None:
        """Correct the cost of a started entry at its original start, by `change` (may overdraw)."""

    def idle(self, now: int, /) -> bool:
        """Whether nothing at all is taken."""

    def taken(self, now: int, /) -> list[tuple[int, int]]:
        """Return what has started and is still open: (age in ns, cost), the oldest first; never younger than it is told."""


class SlidingWindow:
    """At most `limit` in any window of `per` ns.

    `times` holds the starts in order (time does not run backwards), `odd` the cost of those that do not cost 1.
    `used` is an upper bound: entries that ended are removed only when it matters, so a start costs O(1) amortised.
    The last answer of `earliest` is kept, because the head of the queue asks again at every step of the gate: new starts
    stand behind those that it waits for and change nothing, unless it waited for them to start (NEVER).
    """

    __slots__ = ("_answer", "_asked", "_grain", "_slice_began", "exact", "gone", "limit", "odd", "per", "times", "used")

    def __init__(self, limit: int, per: int) -> None:
        self.limit, self.per = limit, per
        self.used = 0
        self.times: deque[int] = deque()
        self.odd: dict[int, int] = {}
        self.gone = 0
        self._asked, self._answer = -1, NEVER
        self.exact = limit <= EXACT_UP_TO
        self._grain = 0 if self.exact else per // GRAINS
        self._slice_began = 0

    def fits(self, now: int, cost: int) -> bool:
        """Whether `cost` may be reserved at `now`."""
        if self.used + cost > self.limit:
            self._expire(now)
        return self.used + cost <= self.limit

    def reserve_one(self, now: int) -> bool:
        """Reserve 1 at `now` if it fits; return whether it did."""
        if self.used >= self.limit and not self.fits(now, 1):
            return False
        self.used += 1
        self._asked = -1
        return True

    def earliest(self, now: int, cost: int) -> int:
        if self.fits(now, cost):
            return now
        if self._asked == cost and self._answer > now:
            return self._answer
        self._asked, self._answer = cost, self._when(cost)
        return self._answer

    def _when(self, cost: int) -> int:
        """Return when so many entries will have ended that `cost` fits."""
        over = self.used + cost - self.limit
        for mark, start in enumerate(self.times, self.gone):
            over -= self.odd.get(mark, 1)
            if over <= 0:
                return start + self.per
        return NEVER

    def reserve(self, cost: int) -> None:
        self.used += cost
        self._asked = -1

    def undo(self, cost: int) -> None:
        self.used -= cost
        self._asked = -1

    def start(self, now: int, cost: int) -> int:
        if self._answer == NEVER:
            self._asked = -1
        times = self.times
        mark = self.gone + len(times)
        if cost == 1 and not self._grain:
            times.append(now)
            return mark
        if self._grain:
            if times and now - self._slice_began < self._grain:
                mark -= 1
                times[-1] = now
                self.odd[mark] += cost
                return mark
            self._slice_began = now
        self.odd[mark] = cost
        times.append(now)
        return mark

    def settle(self, mark: int, change: int) -> None:
        if mark >= self.gone:
            self.odd[mark] = self.odd.get(mark, 1) + change
            self.used += change
            self._asked = -1

    def idle(self, now: int) -> bool:
        self._expire(now)
        return not self.used and not self.times

    def taken(self, now: int) -> list[tuple[int, int]]:
        self._expire(now)
        found: list[tuple[int, int]] = []
        share = max(1, len(self.times) // KEPT)
        for mark, start in enumerate(self.times, self.gone):
            cost, age = self.odd.get(mark, 1), now - start
            if (mark - self.gone) % share:
                found[-1] = (age, found[-1][1] + cost)
            else:
                found.append((age, cost))
        return [(age, cost) for age, cost in found if cost > 0]

    def _expire(self, now: int) -> None:
        times, odd, edge = self.times, self.odd, now - self.per
        while times and times[0] <= edge:
            times.popleft()
            self.used -= odd.pop(self.gone, 1) if odd else 1
            self.gone += 1


class FixedWindow:
    """At most `limit` in each window [anchor + i*per, anchor + (i+1)*per); twice that may fall around a boundary."""

    __slots__ = ("_anchor", "_counted", "_index", "_reserved", "limit", "per")

    def __init__(self, limit: int, per: int, anchor: int) -> None:
        self.limit, self.per, self._anchor = limit, per, anchor
        self._index = self._counted = self._reserved = 0

    def earliest(self, now: int, cost: int) -> int:
        self._roll(now)
        if self._counted + self._reserved + cost <= self.limit:
            return now
        if self._reserved + cost <= self.limit:
            return self._anchor + (self._index + 1) * self.per
        return NEVER

    def reserve(self, cost: int) -> None:
        self._reserved += cost

    def undo(self, cost: int) -> None:
        self._reserved -= cost

    def start(self, now: int, cost: int) -> int:
        self._roll(now)
        self._reserved -= cost
        self._counted += cost
        return self._index

    def settle(self, mark: int, change: int) -> None:
        if mark == self._index:
            self._counted += change

    def idle(self, now: int) -> bool:
        self._roll(now)
        return not self._counted and not self._reserved

    def taken(self, now: int) -> list[tuple[int, int]]:
        self._roll(now)
        return [(0, self._counted)] if self._counted > 0 else []  # when the next one's windows begin is not known

    def _roll(self, now: int) -> None:
        index = (now - self._anchor) // self.per
        if index > self._index:
            self._index, self._counted = index, 0


class TokenBucket:
    """A bucket of `burst` tokens that refills by `limit` per `per` ns: the generic cell rate algorithm (ITU-T I.371).

    `_tat` is the theoretical arrival time, the moment the bucket is full again, in units of 1/limit ns so that odd rates
    stay exact. What a start gives back later counts only as far as the bucket was not full in between, for a full bucket
    would have lost it: `_lows` keeps how much was owed before each start, unless less was owed before a later one.
    """

    __slots__ = ("_lows", "_reserved", "_starts", "_tat", "burst", "limit", "per")

    def __init__(self, limit: int, per: int, burst: int) -> None:
        self.limit, self.per, self.burst = limit, per, burst
        self._tat = self._reserved = self._starts = 0
        self._lows: list[tuple[int, int]] = []

    def earliest(self, now: int, cost: int) -> int:
        taken = self._reserved + cost
        if taken > self.burst:
            return NEVER
        return max(now, -(((self.burst - taken) * self.per - self._tat) // self.limit))

    def reserve(self, cost: int) -> None:
        self._reserved += cost

    def undo(self, cost: int) -> None:
        self._reserved -= cost

    def start(self, now: int, cost: int) -> int:
        self._reserved -= cost
        self._starts += 1
        owed = max(0, self._tat - now * self.limit)
        while self._lows and self._lows[-1][1] >= owed:
            self._lows.pop()
        self._lows.append((self._starts, owed))
        self._tat = now * self.limit + owed + cost * self.per
        return self._starts

    def settle(self, mark: int, change: int) -> None:
        least = min((owed for start, owed in self._lows if start > mark), default=None)
        shift = change * self.per if least is None else max(change * self.per, -least)
        self._lows = [(start, owed + shift if start > mark else owed) for start, owed in self._lows]
        self._tat += shift

    def idle(self, now: int) -> bool:
        return not self._reserved and self._tat <= now * self.limit

    def taken(self, now: int) -> list[tuple[int, int]]:
        owed = self._tat - now * self.limit
        return [(0, -(-owed // self.per))] if owed > 0 else []


class Spacing:
    """Even spacing: after a start of cost c the next may begin c * per / limit later, rounded up.

    It spaces the starts, also where the rate as a whole is measured at the server.
    """

    __slots__ = ("_cost", "_last", "_reserved", "_starts", "limit", "per")

    def __init__(self, limit: int, per: int) -> None:
        self.limit, self.per = limit, per
        self._cost = self._last = self._reserved = self._starts = 0

    def earliest(self, now: int, _cost: int) -> int:
        return NEVER if self._reserved else max(now, self._free_at())

    def reserve(self, _cost: int) -> None:
        self._reserved += 1

    def undo(self, _cost: int) -> None:
        self._reserved -= 1

    def start(self, now: int, cost: int) -> int:
        self._reserved -= 1
        self._starts += 1
        self._last, self._cost = now, cost
        return self._starts

    def settle(self, mark: int, change: int) -> None:
        if mark == self._starts:
            self._cost += change

    def idle(self, now: int) -> bool:
        return not self._reserved and self._free_at() <= now

    def taken(self, now: int) -> list[tuple[int, int]]:
        return [(now - self._last, self._cost)] if self._free_at() > now else []

    def _free_at(self) -> int:
        return self._last - (-self._cost * self.per // self.limit)


def meters(rate: Rate, now: int) -> list[Meter]:
    """Return the meters that together enforce `rate`, with fixed windows anchored at `now`."""
    made: list[Meter] = []
    if rate.burst is not None:
        made.append(TokenBucket(rate.max, rate.per_ns, rate.burst))
    elif rate.kind == "fixed":
        made.append(FixedWindow(rate.max, rate.per_ns, now))
    else:
        made.append(SlidingWindow(rate.max, rate.per_ns))
    if rate.spread:
        made.append(Spacing(rate.max, rate.per_ns))
    return made
