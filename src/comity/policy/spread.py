"""Spread: what a server announces to be left of its quotas, so that it need not refuse.

Theory. An answer says: `left` more requests until `reset`. It was written when that request was judged, so what has
started since counts against it, and what an earlier request's answer says is older news. With nothing left nobody starts
before the reset. While requests queue for more than is left, or less than a tenth of the limit is left, what is left is
spread evenly over the time to the reset instead of being spent at once: the next window is shared with whoever else uses the
key, and one late answer does not cost a refusal.

What a reset brings is not said: a fixed window is full again, of a sliding one a single request may have left. So after
nothing was left one request at a time finds out, and then the answers tell (draft-ietf-httpapi-ratelimit-headers-11 calls
what remains no promise: the gate still obeys refusals and pauses).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from comity.policy.pause import NO_CAP
from comity.policy.quotas import Quota

LITTLE = 10
"""Below a LITTLE-th of the limit what is left is spread, however few wait."""


@dataclass(slots=True)
class _Told:
    """What was told of one quota last.

    Args:
        rank: of the request whose answer told it.
        left: how many may still start, by what has started since.
        limit: how many a window allows, or None.
        reset: when more is there, ns.
    """

    rank: int
    left: int
    limit: int | None
    reset: int


class Spread:
    """The earliest next start, and a cap, by what was announced.

    Attributes:
        until: no start before this time, ns.
        cap: how many may run at once.
    """

    __slots__ = ("_starts", "_told", "cap", "until")

    def __init__(self) -> None:
        self.until = 0
        self.cap = NO_CAP
        self._starts = 0
        self._told: dict[str, _Told] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is known that a new one would not know."""
        return not self._told and self.cap == NO_CAP

    def start(self, now: int, waiting: int) -> int:
        """Note that a request started.

        Args:
            now: ns.
            waiting: how many wait for their turn.

        Returns:
            Its rank, for `hear`.
        """
        self._starts += 1
        if self._told:
            for told in self._told.values():
                told.left -= 1
            self._pace(now, waiting)
        return self._starts

    def hear(self, quotas: Iterable[Quota], rank: int, now: int, waiting: int) -> None:
        """Take what an answer announced.

        Args:
            quotas: those it named.
            rank: of its request.
            now: when it came, ns.
            waiting: how many wait for their turn.
        """
        news = False
        for quota in quotas:
            if quota.remaining is None or quota.reset is None or (quota.unit != "requests" and quota.remaining):
                continue
            told = self._told.get(quota.name)
            if told is None or rank >= told.rank:
                left = quota.remaining - (self._starts - rank)
                self._told[quota.name] = _Told(rank, left, quota.limit, now + quota.reset)
                news = True
        if news:
            self.cap = NO_CAP
            self._pace(now, waiting)

    def _pace(self, now: int, waiting: int) -> None:
        """Find the earliest next start."""
        self.until = 0
        for name, told in list(self._told.items()):
            if told.reset <= now:
                del self._told[name]  # old news: what there is now the next answer tells
                if told.left <= 0:
                    self.cap = 1
            elif told.left <= 0:
                self.until, self.cap = max(self.until, told.reset), 1
            elif waiting > told.left or (told.limit is not None and told.left * LITTLE < told.limit):
                self.until = max(self.until, now + (told.reset - now) // (told.left + 1))
