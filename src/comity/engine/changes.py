"""Changes: what a host taught since it was told last, for events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from comity.policy.limiter import HostLimiter

NOTABLE = 0.2
"""The least change of a limit or a rate that is told, as a share of what was told before."""


@dataclass(frozen=True, slots=True)
class News:
    """One change, as its `Event` tells it.

    Args:
        type: of the event.
        wait: seconds until the first probe.
        limit: the learned limit of concurrency.
        rate: the learned rate, requests per second.
    """

    type: Literal["limited", "opened", "closed"]
    wait: float | None = None
    limit: float | None = None
    rate: float | None = None


class Changes:
    """What was told of one host."""

    __slots__ = ("_limit", "_open", "_rate")

    def __init__(self) -> None:
        self._limit: float | None = None
        self._rate: float | None = None
        self._open = False

    def since(self, core: HostLimiter, now: int) -> list[News]:
        """Return what is to be told at `now`, ns; it counts as told then."""
        news: list[News] = []
        adaptive, breaker = core.adaptive, core.breaker
        if breaker is not None and breaker.open is not self._open:
            self._open = breaker.open
            wait = max(0, breaker.until - now) / 1e9 if breaker.open else None
            news.append(News("opened" if breaker.open else "closed", wait=wait))
        if adaptive is not None:
            limit, rate = adaptive.limit, adaptive.rate
            if _notable(self._limit, limit) or _notable(self._rate, rate):
                self._limit, self._rate = limit, rate
                news.append(News("limited", limit=limit, rate=rate))
        return news


def _notable(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= NOTABLE * before
