"""Room: how many deliveries may be alive at once, as one commit sees it, whatever the database."""

from __future__ import annotations

from collections.abc import Sequence

from comity.store.records import NewDelivery, Submitted
from comity.store.schedules import NewSchedule

Call = tuple[Sequence[NewDelivery | NewSchedule], int | None]
"""What is submitted at once, and how many may be alive."""

ALIVE = "SELECT coalesce(sum(pending + retrying), 0) FROM lanes"
"""How many are, by what was committed."""


class Room:
    """What is left of a bound.

    Args:
        alive: how many are pending or retrying before this commit's submissions; None where nobody bounds them.
        now: ns since the epoch.
    """

    def __init__(self, alive: int | None, now: int) -> None:
        self._alive, self._now = alive or 0, now

    def take(self, most: int | None) -> Submitted | None:
        """Count one more; return what is told of it when `most` are alive already, and nothing is to be stored."""
        if most is not None and self._alive >= most:
            return Submitted(id="", outcome="full", state=None, created_at=self._now)
        self._alive += 1
        return None
