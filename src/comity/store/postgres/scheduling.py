"""Scheduling: the runs of schedules, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from comity.errors import OptionsError
from comity.store.lane_rules import astray
from comity.store.postgres.change import Change
from comity.store.postgres.reading import is_id
from comity.store.postgres.submitting import Made, planned
from comity.store.postgres.transaction import Transaction, columns
from comity.store.records import EventKind
from comity.store.row import Row
from comity.store.schedules import BEFORE_ALL, DueSchedules, DueSince, NextRun, Schedule, due_page, run_of, schedule_of
from comity.store.sums import Results

_COLUMNS = (
    "s.id::text, s.template, s.cron, s.zone, s.overlap, s.within, s.paused, s.next_at, s.latest::text, s.created_at"
)
_SCHEDULE = f"SELECT {_COLUMNS} FROM schedules s"  # noqa: S608 - names of ours
_DUE = f"""
SELECT {_COLUMNS}, s.due_at FROM schedules s LEFT JOIN deliveries d ON d.id = s.latest
WHERE NOT s.paused AND s.due_at <= $1 AND (s.overlap = 'allow' OR d.id IS NULL OR d.phase = 0)
    AND (s.due_at, s.id) > ($2, $3::uuid) AND ($4::uuid IS NULL OR s.id = $4) ORDER BY s.due_at, s.id LIMIT $5
"""  # noqa: S608 - names of ours
_NEXT_DUE = "SELECT min(due_at) FROM schedules WHERE NOT paused AND due_at > $1"
_ADVANCED = """
UPDATE schedules s SET next_at = v.at, due_at = v.at, latest = v.latest
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) v (id, at, latest) WHERE s.id = v.id
"""
# The time that its pause took from a run is again to come: nothing before it, whose runs may have been sent early or cancelled.
_AGAIN = """
UPDATE schedules SET paused = false, due_at = $1, next_at = CASE
    WHEN due_at = next_at AND EXISTS (SELECT 1 FROM deliveries WHERE id = latest AND state = 'cancelled' AND attempts = 0)
    THEN next_at - 1 ELSE next_at END WHERE id = $2
"""
_FIRST = "00000000-0000-0000-0000-000000000000"


async def advance(transaction: Transaction, calls: list[Sequence[NextRun]]) -> Results[int]:
    """Make runs; a call that names a lane that leads elsewhere is refused as a whole."""
    return [await _advance(transaction, runs) for runs in calls]


async def change(transaction: Transaction, calls: list[tuple[str, bool]]) -> Results[Schedule | None]:
    """Pause or resume schedules; alone with the store, so that nobody has their runs."""
    for number, paused in calls:
        found = await one(transaction.db, number)
        if found is None or found.paused == paused:
            continue
        if paused:
            await transaction.db.execute("UPDATE schedules SET paused = true WHERE id = $1", number)
            await _cancel(transaction, found)
        else:
            await transaction.db.execute(_AGAIN, transaction.now, number)
        await _tell(transaction, "schedule.paused" if paused else "schedule.resumed", found)
    return [await one(transaction.db, number) for number, _ in calls]


async def remove(transaction: Transaction, calls: list[str]) -> Results[bool]:
    """End schedules; alone with the store, so that nobody has their runs."""
    results: Results[bool] = []
    for number in calls:
        found = await one(transaction.db, number)
        if found is not None:
            await transaction.db.execute("DELETE FROM schedules WHERE id = $1", number)
            await _cancel(transaction, found)
            await _tell(transaction, "schedule.removed", found)
        results.append(found is not None)
    return results


async def wait_no_more(transaction: Transaction, rows: Iterable[Row]) -> None:
    """Let the runs after these be made, where they are the newest of schedules: they will not be sent at their time."""
    if numbers := [row.id for row in rows]:
        text = "UPDATE schedules SET due_at = least(due_at, $1) WHERE latest = ANY($2::uuid[])"
        await transaction.db.execute(text, transaction.now, numbers)


# Reading: each takes a connection, so the writer uses some inside its transactions too.


async def due(db: Any, now: int, most: int, after: DueSince | None, of: str | None) -> DueSchedules:
    """Return the schedules whose next run is to be made."""
    at, number = after or (BEFORE_ALL[0], _FIRST)
    rows = await db.fetch(_DUE, now, at, number, of, most)
    later = await db.fetchval(_NEXT_DUE, now)
    return due_page(rows, most, None if later is None else later - now)


async def one(db: Any, number: str) -> Schedule | None:
    """Return a schedule, or None."""
    row = await db.fetchrow(f"{_SCHEDULE} WHERE s.id = $1", number)
    return None if row is None else schedule_of(row)


async def several(db: Any, after: str, most: int) -> list[Schedule]:
    """Return schedules, the oldest first."""
    rows = await db.fetch(
        f"{_SCHEDULE} WHERE s.id > $1 ORDER BY s.id LIMIT $2", after if is_id(after) else _FIRST, most
    )
    return [schedule_of(row) for row in rows]


async def _advance(transaction: Transaction, runs: Sequence[NextRun]) -> int | OptionsError:
    text = f"{_SCHEDULE} WHERE s.id = ANY($1::uuid[]) AND NOT s.paused ORDER BY s.id FOR UPDATE"
    rows = await transaction.db.fetch(text, [run.schedule for run in runs])
    found = {each.id: each for each in map(schedule_of, rows)}
    deliveries = [each.run for each in found.values()]
    lanes = await planned(transaction, [deliveries])
    if error := astray(deliveries, lanes):
        return error
    made = Made(transaction, lanes)
    advanced: list[tuple[object, ...]] = []
    for run in runs:
        of = found.get(run.schedule)
        if of is not None and of.next_at == run.before:
            del found[of.id]
            number = made.delivery(run_of(of.id, of.run, run.at, of.within), schedule=of.id)
            advanced.append((of.id, run.at, number))
    await made.save()
    if advanced:
        await transaction.db.execute(_ADVANCED, *columns(advanced))
    return len(advanced)


async def _cancel(transaction: Transaction, of: Schedule) -> None:
    """Cancel the newest run, unless it was sent already."""
    cancelling = Change(transaction)
    for row in await cancelling.find("id = $1 AND state = 'pending' AND began_at IS NULL FOR UPDATE", of.latest):
        cancelling.cancel(row)
    await cancelling.save()


async def _tell(transaction: Transaction, kind: EventKind, of: Schedule) -> None:
    key = of.run.lane_key
    lane = (await transaction.lanes([key])).get(key)
    transaction.event(kind, lane=lane and lane.id, delivery=of.latest, note=of.id)
