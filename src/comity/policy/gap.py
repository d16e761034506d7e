"""Gap: the least time between two starts on a host, the caller's own and what refusals taught.

Every new episode of 429s widens the learned gap, 250 ms first, doubling up to 10 s; 20 successes in a row halve it, and
below 250 ms it is gone (PF-015, PF-016). It is added to the caller's `min_gap`.
"""

from __future__ import annotations

from comity.policy.windows import NEVER

FIRST = 250_000_000
CEILING = 10_000_000_000
CALM = 20


class Gap:
    """The gap before the next start, in ns; it counts from the last start's first byte."""

    __slots__ = ("_calm", "_last", "_reserved", "learned", "learns", "own")

    def __init__(self, own: int = 0, *, learns: bool = True) -> None:
        self.own, self.learns = own, learns
        self.learned = self._calm = self._reserved = 0
        self._last: int | None = None

    @property
    def width(self) -> int:
        """The present gap, ns."""
        return self.own + self.learned

    def earliest(self, now: int) -> int:
        """Return when the next start may be granted."""
        if not self.width:
            return now
        if self._reserved:
            return NEVER
        return now if self._last is None else max(now, self._last + self.width)

    def reserve(self) -> None:
        """Note a grant that has not started yet."""
        self._reserved += 1

    def undo(self) -> None:
        """Forget a grant that never started."""
        self._reserved -= 1

    def start(self, now: int) -> None:
        """Note that a granted one started."""
        self._reserved -= 1
        self._last = now

    def idle(self, now: int) -> bool:
        """Whether nothing was learned and the last start is further back than the gap."""
        return not self.learned and not self._reserved and self.earliest(now) <= now

    def failed(self) -> None:
        """Note what was no success: the row of successes is broken."""
        self._calm = 0

    def refused(self) -> None:
        """Widen: an episode of refusals began."""
        self._calm = 0
        if self.learns:
            self.learned = min(CEILING, self.learned * 2) if self.learned else FIRST

    def succeeded(self) -> None:
        """Count a success; CALM in a row halve the learned gap."""
        if not self.learned:
            return
        self._calm += 1
        if self._calm == CALM:
            self._calm = 0
            self.learned = self.learned // 2 if self.learned // 2 >= FIRST else 0
