"""Steady: what refusals alone teach, where neither a rate is given nor concurrency adapts: the rate.

It costs nothing before the first refusal, as it is made then, from counts that there are anyway.
"""

from __future__ import annotations

from comity.policy.controller import Ending, Start
from comity.policy.pause import NO_CAP
from comity.policy.rate_law import RateLaw
from comity.policy.windows import NEVER


class Steady:
    """See `Controller`; concurrency stays what it is.

    Args:
        since: when the first request of the host started, ns.
        following: how many have started.
        running: how many of them are under way; most of them will be refused too, which nobody will say.
    """

    cap = NO_CAP
    wake = NEVER
    use_ttfb = False
    owns_refusals = False
    breaker = None
    floor = 0.0
    limit: float | None = None

    __slots__ = ("_following", "_rates", "until")

    def __init__(self, since: int, following: int, running: int) -> None:
        self._rates, self._following = RateLaw(since, refused=running), following
        self.until = since

    @property
    def rate(self) -> float | None:
        """The learned rate, requests per second, or None."""
        return self._rates.rate

    @property
    def refused(self) -> bool:
        """Whether the host refuses at present, and single probes go out."""
        return self._rates.refused

    def recall(self, rate: float | None, limit: float | None, now: int) -> None:  # noqa: ARG002 - as of `Controller`
        """Begin with what is known from before; see `Controller`."""
        if rate is not None:
            self._rates.recall(rate, now)

    def begin(self, running: int, now: int) -> Start:
        """Note a start; see `Controller`."""
        rank = self._following
        self._following = rank + 1
        self._rates.begin(rank, now)
        self.until = self._rates.until
        return rank, running, now

    def end(self, start: Start, now: int, ending: Ending, latency: int | None, hint: int | None) -> None:  # noqa: ARG002
        """Note an end; see `Controller`."""
        rank, _, started = start
        if ending is Ending.REFUSED:
            self._rates.refuse(rank, started, now, self._following, hint)
        elif ending is not Ending.NOTHING:
            self._rates.accept(rank, now, self._following)
        self.until = self._rates.until

    def tick(self, now: int) -> None:
        """Do nothing: it asks for no time."""
