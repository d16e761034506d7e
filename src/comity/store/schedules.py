"""Schedules: requests that are delivered again and again.

    submitted ──► run 1 waits for its time ──► run 2 waits ──► ...      paused: none waits
                  (in one transaction)         (in the one that moves `next_at` on)

Each run is a delivery of its own. While a schedule is not paused its newest run waits for its time: that of the next one is made
when this one's time has come, or when it will not wait any more because it was cancelled, or sent before its time. Which
time that is, is said by whoever makes it; that `next_at` was still the one it went by is what keeps two from making one run.

Which times a cron names is not for a store to know: it keeps the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from comity.store.records import NewDelivery

Overlap = Literal["allow", "skip"]
"""allow: a run is made for every time.  skip: for none that comes while the run before is alive."""

_NS = 1_000_000_000


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A request to be delivered again and again.

    Args:
        run: what each run is. Its idempotency key is that of the whole; runs have keys of their own. It says no times.
        cron, zone: which times.
        overlap: what to do at a time when the run before is alive.
        within: a run is not to be sent from so long after its time on; None: however late.
        first_at: the first time; it is not among what a second use of the key must have in common with the first.
    """

    run: NewDelivery
    cron: str
    zone: str = "UTC"
    overlap: Overlap = "allow"
    within: int | None = None
    first_at: int = 0

    @property
    def idempotency_key(self) -> str | None:
        """The key of the whole."""
        return self.run.idempotency_key

    @property
    def fingerprint(self) -> bytes:
        """A digest of all that a second use of the key must have in common with the first."""
        return self._digest(self.run.fingerprint)

    def is_as(self, fingerprint: bytes) -> bool:
        """Return whether a stored fingerprint is this schedule's."""
        return fingerprint in map(self._digest, self.run.fingerprints or (self.run.fingerprint,))

    @property
    def template(self) -> bytes:
        """The run as it is stored. What is asked of its lane is asked once: later it may be changed."""
        return msgspec.msgpack.encode(replace(self.run, idempotency_key=None, fingerprints=(), ordered=False))

    def _digest(self, run: bytes) -> bytes:
        return sha256(msgspec.msgpack.encode((run, self.cron, self.zone, self.overlap, self.within))).digest()


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stands.

    Args:
        next_at: the time of its newest run.
        latest: the id of that run.
    """

    id: str
    run: NewDelivery
    cron: str
    zone: str
    overlap: Overlap
    within: int | None
    paused: bool
    next_at: int
    latest: str
    created_at: int

    def __repr__(self) -> str:
        return f"<Schedule {self.id} {self.cron!r} in {self.zone}>"


DueSince = tuple[int, str]
"""Where a schedule stands among those that are due: since when, ns since the epoch, and its id."""

BEFORE_ALL: DueSince = (-1, "")


class DueSchedules(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules whose next run is to be made now.

    Args:
        schedules: they.
        next_in: in how many ns the time of the next of the others comes; None: of none.
        last: where this page ends, when there may be more.
    """

    schedules: Sequence[Schedule]
    next_in: int | None
    last: DueSince | None = None


class NextRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run to be made: of which schedule, for which time, and the `next_at` that this goes by."""

    schedule: str
    before: int
    at: int


def schedule_of(row: Sequence[Any]) -> Schedule:
    """Return the schedule of a row whose columns stand in the order of its fields."""
    number, template, cron, zone, overlap, within, paused, next_at, latest, created_at = row
    return Schedule(
        id=number,
        run=msgspec.msgpack.decode(template, type=NewDelivery),
        cron=cron,
        zone=zone,
        overlap=overlap,
        within=within,
        paused=bool(paused),
        next_at=next_at,
        latest=latest,
        created_at=created_at,
    )


def due_page(rows: Sequence[Sequence[Any]], most: int, next_in: int | None) -> DueSchedules:
    """Return a page of rows that have `due_at` behind the columns of a schedule."""
    last = (rows[-1][-1], rows[-1][0]) if len(rows) == most else None
    return DueSchedules(schedules=[schedule_of(row[:-1]) for row in rows], next_in=next_in, last=last)


def run_of(schedule: str, template: NewDelivery, at: int, within: int | None) -> NewDelivery:
    """Return the run of a time.

    Its key names schedule and time, so that a receiver can tell a repetition from the next run.

    Example:
        >>> template = NewDelivery(origin="https://api.example:443", method="GET", url="https://api.example/")
        >>> run_of("7b", template, 1_700_000_000_000_000_000, None).idempotency_key
        '7b/2023-11-14T22:13:20Z'
    """
    time = f"{datetime.fromtimestamp(at // _NS, UTC):%Y-%m-%dT%H:%M:%SZ}"
    deadline = None if within is None else at + within
    return replace(template, run_at=at, deadline=deadline, idempotency_key=f"{schedule}/{time}")
