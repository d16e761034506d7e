"""Ema: an adaptive control that compares each latency with the running average.

    below `ignore_below`                headroom: no part of the average; one step up
    up to `congestion_ratio` averages   good: averaged with weight ALPHA; one step up
    above                               congested: no part of the average, or congestion would become what is usual;
                                        `breach_limit` of them in a row cut the limit by `decrease_factor`

A step never leads above the host's limit, a cut takes at least one slot and never leads below `min_concurrency`.
"""

from __future__ import annotations

from comity.policy.adaptive import Adaptive
from comity.policy.controller import Ending, Start
from comity.policy.rate_law import RateLaw
from comity.policy.windows import NEVER

ALPHA = 0.2
"""The weight of a new sample in the average."""


class Ema:
    """See `Controller`.

    Args:
        options: of algorithm "ema".
        concurrency: the host's limit.
        rates: what refusals teach besides; None: it holds back nothing in time.
    """

    wake = NEVER
    owns_refusals = False
    breaker = None

    __slots__ = ("_average", "_breaches", "_maximum", "_options", "_rank", "_rates", "cap", "until", "use_ttfb")

    def __init__(self, options: Adaptive, concurrency: int, rates: RateLaw | None = None) -> None:
        self._options, self._maximum, self._rates = options, concurrency, rates
        self.until = 0
        initial = options.initial_concurrency
        self.cap = concurrency if initial is None else initial
        self.use_ttfb = bool(options.use_ttfb)
        self._average = 0.0
        self._breaches = self._rank = 0

    @property
    def rate(self) -> float | None:
        """The learned rate, requests per second, or None."""
        return None if self._rates is None else self._rates.rate

    @property
    def refused(self) -> bool:
        """Whether an episode of refusals is under way."""
        return self._rates is not None and self._rates.refused

    @property
    def limit(self) -> float:
        """The present limit of concurrency."""
        return float(self.cap)

    @property
    def floor(self) -> float:
        """The average latency, ns; 0 while unknown."""
        return self._average

    def recall(self, rate: float | None, limit: float | None, now: int) -> None:  # noqa: ARG002 - as of `Controller`
        """Begin with the rate that is known from before; where concurrency begins the options say."""
        if self._rates is not None and rate is not None:
            self._rates.recall(rate, now)

    def begin(self, running: int, now: int) -> Start:
        """Note a start; see `Controller`."""
        rank = self._rank
        self._rank += 1
        if self._rates is not None:
            self._rates.begin(rank, now)
            self.until = self._rates.until
        return rank, running, now

    def end(self, start: Start, now: int, ending: Ending, latency: int | None, hint: int | None) -> None:
        """Note an end; see `Controller`. Only answers with a latency are samples."""
        if ending is Ending.OK and latency is not None:
            self._sample(latency)
        if self._rates is not None:
            rank, _, started = start
            if ending is Ending.REFUSED:
                self._rates.refuse(rank, started, now, self._rank, hint)
            elif ending is not Ending.NOTHING:
                self._rates.accept(rank, now, self._rank)
            self.until = self._rates.until

    def tick(self, now: int) -> None:
        """Do nothing: time alone changes nothing here."""

    def _sample(self, latency: int) -> None:
        options = self._options
        assert options.congestion_ratio is not None
        assert options.breach_limit is not None
        assert options.increase_step is not None
        if latency >= options.ignore_below_ns:
            if self._average and latency > self._average * options.congestion_ratio:
                self._breaches += 1
                if self._breaches >= options.breach_limit:
                    self._breaches = 0
                    self._cut()
                return
            self._average += ALPHA * (latency - self._average) if self._average else latency
        self._breaches = 0
        self.cap = min(self._maximum, self.cap + options.increase_step)

    def _cut(self) -> None:
        factor, least = self._options.decrease_factor, self._options.min_concurrency
        assert factor is not None
        self.cap = max(least, min(self.cap - 1, int(self.cap * factor)))
