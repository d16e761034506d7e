"""Submission: what is handed in at once, and what becomes of each of it, whatever the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from comity.store.records import NewDelivery, Submitted
from comity.store.row import READY, WAITING
from comity.store.schedules import NewSchedule
from comity.store.sums import Sums

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


class Place(NamedTuple):
    """Where a new delivery stands."""

    phase: int
    due_at: int
    rank: int


def born(sums: Sums, number: str, new: NewDelivery, lane: int) -> Place:
    """Count a new delivery, and tell of it; return where it stands."""
    due_at = new.due(sums.now)
    ready = due_at <= sums.now
    sums.count(lane, "pending", 1)
    if ready:
        sums.count(lane, "ready", 1)
    sums.event("pending", lane=lane, delivery=number)
    return Place(READY if ready else WAITING, due_at, new.rank(sums.now, sums.ageing))


def used_before(new: NewDelivery | NewSchedule, earlier: Sequence[Any]) -> Submitted:
    """Return what an earlier use of its key means for a new one.

    Args:
        new: what is handed in.
        earlier: fingerprint, id, time, state and schedule of what the key stands for.
    """
    fingerprint, number, created_at, state, schedule = earlier
    outcome: Literal["replayed", "conflict"] = "replayed" if new.is_as(fingerprint) else "conflict"
    return Submitted(id=number, outcome=outcome, state=state, created_at=created_at, schedule=schedule)
