"""Reading: rows as records, and what is the same about them whatever the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from comity.store.records import ENDS, STATES, Counts, Lane, Origin, Query, Share, State

S = TypeVar("S", bound=msgspec.Struct)


def filled(kind: type[S], row: Iterable[Any]) -> S:
    """Return a record of a row whose columns stand in the order of its fields."""
    return kind(**dict(zip(kind.__struct_fields__, row, strict=True)))


def lane_of(row: Iterable[Any]) -> Lane:
    """Return the lane of a row: key, paused, pause_reason, ordered, limits, the columns of its origin and its counts."""
    key, paused, reason, ordered, limits, *rest = row
    some = len(Origin.__struct_fields__)
    return Lane(
        key=key,
        origin=filled(Origin, rest[:some]),
        paused=bool(paused),
        pause_reason=reason,
        ordered=bool(ordered),
        limits=limits,
        counts=filled(Counts, rest[some:]),
    )


def share_of(row: Iterable[int]) -> Share:
    """Return a share of a row: the origins with work that a lease owns, all of them, and the leases that there are."""
    owned, wanted, leases = row
    return Share(owned=owned, fair=-(-wanted // max(1, leases)))


def states_of(query: Query, *, ended: bool) -> Sequence[State | None]:
    """Return the states of which a page is put together, each in one piece of an index; None is any at once.

    Who looks for few among others passes over no others.
    """
    if query.state is not None:
        return (query.state,)
    if query.reason is not None:
        return ("failed",)
    if query.schedule is None and (ended or query.lane is not None):
        return ENDS if ended else STATES
    return (None,)
