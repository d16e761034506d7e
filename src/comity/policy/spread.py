"""Spread: what a server announces to be left of its quotas, so that it need not refuse.

Theory. An answer says: `left` more requests until `reset`. It was written when that request was judged, so what was
let through since counts against it, and what an earlier request's answer says is older news. With nothing left nobody starts
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
from comity.policy.units import NS

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


SHORT = 10 * NS
"""Where a rate is known, quotas that are reset sooner are left to it, ns: a reset is told in whole seconds, rounded up, so for
short windows the rate knows better."""

ALWAYS = 8
"""So many answers of a host are searched for announcements at first, ..."""

SELDOM = 64
"""... and if there were none, one in so many from then on."""


class Spread:
    """The earliest next start, and a cap, by what was announced. A `Control`.

    Args:
        least: quotas that are reset sooner say nothing, ns.

    Attributes:
        until: no start before this time, ns.
        cap: how many may run at once.
        granted: how many were let through.
    """

    __slots__ = ("_least", "_silent", "_told", "cap", "granted", "until")

    def __init__(self, least: int = 0) -> None:
        self._least = least
        self.until = 0
        self.cap = NO_CAP
        self.granted = self._silent = 0
        self._told: dict[str, _Told] = {}

    @property
    def active(self) -> bool:
        """Whether anything was announced that still counts."""
        return bool(self._told)

    def listens(self) -> bool:
        """Whether the next answer is to be searched for announcements."""
        self._silent += 1
        return self._silent <= ALWAYS or self._silent % SELDOM == 0

    @property
    def used_up(self) -> bool:
        """Whether a quota of which nothing was left holds everybody back, or did so last."""
        return self.cap == 1

    @property
    def idle(self) -> bool:
        """Whether nothing is known that a new one would not know."""
        return not self._told and self.cap == NO_CAP

    def grant(self, now: int, waiting: int) -> None:
        """Note that a request was let through while anything announced counts; `granted` is up already.

        Args:
            now: ns.
            waiting: how many wait for their turn.
        """
        for told in self._told.values():
            told.left -= 1
        self._pace(now, waiting)

    def probed(self) -> bool:
        """Note a success while one at a time finds out; return whether that ends it, as no answer told anything more."""
        if self._told:
            return False
        self.cap = NO_CAP
        return True

    def hear(self, quotas: Iterable[Quota], rank: int, now: int, waiting: int) -> None:
        """Take what an answer announced.

        Args:
            quotas: those it named.
            rank: how many had been let through with its request.
            now: when it came, ns.
            waiting: how many wait for their turn.
        """
        news = False
        for quota in quotas:
            self._silent = 0
            if quota.remaining is None or quota.reset is None or quota.reset < self._least:
                continue
            if quota.unit != "requests" and quota.remaining:
                continue  # how many requests these are worth is not known
            told = self._told.get(quota.name)
            if told is None or rank >= told.rank:
                left = quota.remaining - (self.granted - rank)
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
