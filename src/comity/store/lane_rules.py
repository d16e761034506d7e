"""What may be done with lanes, whatever the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from comity.errors import OptionsError
from comity.store.base import MOST_IN_LINE
from comity.store.known import Way
from comity.store.records import Lane, NewDelivery

_NS = 1_000_000_000


class LaneChange(NamedTuple):
    """What to change of a lane; None leaves it as it is. With `origin` one that is not there is made, and leads to it."""

    key: str
    paused: bool | None
    limits: bytes | None
    ordered: bool | None
    origin: str | None


def astray(new: Sequence[NewDelivery], lanes: Mapping[str, Way]) -> OptionsError | None:
    """Return what is wrong with deliveries to these lanes; None when nothing is.

    A lane that is not among them becomes what the first delivery to it asks for.
    """
    made: dict[str, Way] = {}
    for each in new:
        key = each.lane_key
        way = lanes.get(key) or made.setdefault(key, Way(each.origin, each.ordered))
        if each.origin != way.origin:
            return OptionsError("lane", key, hint=f"it is a lane to {way.origin}, not to {each.origin}")
        if each.ordered and not way.ordered:
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
