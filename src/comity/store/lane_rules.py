"""What may be done with lanes, whatever the database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from comity.errors import OptionsError
from comity.store.base import MOST_IN_LINE
from comity.store.records import Lane, NewDelivery

_NS = 1_000_000_000


class LaneChange(NamedTuple):
    """What to change of a lane; None leaves it as it is. With `origin` one that is not there is made, and leads to it."""

    key: str
    paused: bool | None
    limits: bytes | None
    ordered: bool | None
    origin: str | None


def misled(new: NewDelivery, origin: str, *, ordered: bool) -> OptionsError | None:
    """Return what is wrong with a delivery to a lane that leads to this origin, ordered or not; None when nothing is."""
    key = new.lane or new.origin
    if new.origin != origin:
        return OptionsError("lane", key, hint=f"it is a lane to {origin}, not to {new.origin}")
    if new.ordered and not ordered:
        return OptionsError("ordered", True, hint=f"the lane {key} is not an ordered one; make it one first")
    return None


def overfull(lane: Lane) -> OptionsError | None:
    """Return why a lane cannot become an ordered one; None when it can."""
    alive = lane.counts.pending + lane.counts.retrying
    if alive <= MOST_IN_LINE:
        return None
    hint = f"{alive:,} deliveries are alive in it, and {MOST_IN_LINE:,} at most can be put in line; let it get shorter"
    return OptionsError("ordered", True, hint=hint)


def why_paused(since: int) -> str:
    """Return the reason of a lane that is paused as nothing but failures came of it since a time."""
    return f"nothing but failures since {datetime.fromtimestamp(since // _NS, UTC):%Y-%m-%dT%H:%M:%SZ}"
