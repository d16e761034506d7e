"""Auto: an adaptive control of three laws side by side, for concurrency, rate and failures.

Each answer concerns one of them: latencies the concurrency law, refusals the rate law (or the crowd, when they came of too
many at once), failures the breaker. Fast refusals are never taken for health: no law but their own sees them.
"""

from __future__ import annotations

from comity.policy.breaker import Breaker
from comity.policy.concurrency_law import ConcurrencyLaw
from comity.policy.controller import Ending, Start
from comity.policy.crowd import Crowd
from comity.policy.failure_law import CUT, FailureLaw
from comity.policy.pause import NO_CAP
from comity.policy.rate_law import RateLaw
from comity.policy.windows import NEVER

HALF = 0.5
"""The part of a limit that is known from before at which the slow start begins."""

INITIAL = 2
"""Where a slow start begins."""


class Auto:
    """See `Controller`.

    Args:
        minimum, maximum: of the concurrency.
        initial: where it starts; None for INITIAL, within the two.
        now: ns.
        wall_offset: wall clock minus the clock of `now`, ns.
        breaker: how the breaker is set.
    """

    use_ttfb = True
    owns_refusals = True

    __slots__ = ("_concurrency", "_crowd", "_following", "_rates", "breaker", "cap", "until", "wake")

    def __init__(
        self,
        *,
        minimum: int,
        maximum: int,
        initial: int | None,
        now: int,
        wall_offset: int = 0,
        breaker: Breaker = Breaker(),  # noqa: B008 - frozen
    ) -> None:
        start = min(maximum, max(minimum, INITIAL)) if initial is None else initial
        self._concurrency = ConcurrencyLaw(
            minimum=minimum, maximum=maximum, initial=start, now=now, wall_offset=wall_offset
        )
        self._rates, self._crowd, self.breaker = RateLaw(now), Crowd(), FailureLaw(breaker)
        self._following = 0
        self.cap, self.until, self.wake = start, now, NEVER

    @property
    def limit(self) -> float:
        """The learned limit of concurrency."""
        return min(self._concurrency.limit, float(self._crowd.cap))

    @property
    def floor(self) -> float:
        """What an answer takes without a queue, ns; 0 while unknown."""
        return self._concurrency.floor

    @property
    def rate(self) -> float | None:
        """The learned rate, requests per second, or None."""
        return self._rates.rate

    @property
    def refused(self) -> bool:
        """Whether an episode of refusals is under way."""
        return self._rates.refused

    def recall(self, rate: float | None, limit: float | None, now: int) -> None:
        """Begin with what is known from before, concurrency with half; see `Controller`."""
        if rate is not None:
            self._rates.recall(rate, now)
        if limit is not None:
            self._concurrency.recall(HALF * limit)
        self._take_over()

    def begin(self, running: int, now: int) -> Start:
        """Note a start; see `Controller`."""
        rank = self._following
        self._following = rank + 1
        self._concurrency.begin(rank, running, now)
        self._rates.begin(rank, now)
        if self.breaker.open:
            self.breaker.begin(now)
        if self._crowd.cap < NO_CAP:
            self._crowd.begin(running, now)
        self._take_over()
        return rank, running, now

    def end(self, start: Start, now: int, ending: Ending, latency: int | None, hint: int | None) -> None:
        """Note an end; see `Controller`."""
        rank, abreast, started = start
        law, following = self._concurrency, self._following
        law.end(rank, latency if ending is Ending.OK else None, now, following)
        if ending is Ending.OK:
            self._rates.accept(rank, now, following)
            self._crowd.accept(abreast)
            if self.breaker.success(rank):
                law.restart(following)
        elif ending is Ending.REFUSED:
            if hint is None and self._crowd.refuse(rank, abreast, now, following):
                self._rates.crowded()
            else:
                self._rates.refuse(rank, started, now, following, hint)
        elif ending is not Ending.NOTHING:
            late = ending is Ending.TIMED_OUT
            if self.breaker.failure(now, following, law.limit, law.latency, timed_out=late):
                law.cut(CUT, following)
        self._take_over()

    def tick(self, now: int) -> None:
        """Note that the time of `wake` came."""
        self._concurrency.tick(now, self._following)
        self._take_over()

    def _take_over(self) -> None:
        """Take over what the laws say now."""
        law = self._concurrency
        self.cap = min(law.width, self._crowd.cap)
        self.until = max(self._rates.until, self.breaker.until)
        self.wake = law.wake
