"""Scheduling: the runs of schedules, one after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from comity.errors import OptionsError
from comity.store.lane_rules import astray
from comity.store.records import EventKind
from comity.store.row import CLAIMED, READY, WAITING, Row
from comity.store.schedules import BEFORE_ALL, DueSchedules, DueSince, NextRun, Schedule, due_page, run_of, schedule_of
from comity.store.sqlite.change import Change
from comity.store.sqlite.submitting import insert, lane_of, ways, write_payloads
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results

_COLUMNS = "s.id, s.template, s.cron, s.zone, s.overlap, s.within, s.paused, s.next_at, s.latest, s.created_at"
_SCHEDULE = f"SELECT {_COLUMNS} FROM schedules s"  # noqa: S608 - names of ours
_DUE = f"""
SELECT {_COLUMNS}, s.due_at FROM schedules s LEFT JOIN deliveries d ON d.id = s.latest
WHERE s.paused = 0 AND s.due_at <= ?1 AND (s.overlap = 'allow' OR d.id IS NULL OR d.phase = 0)
    AND (s.due_at, s.id) > (?2, ?3) AND (?4 IS NULL OR s.id = ?4) ORDER BY s.due_at, s.id LIMIT ?5
"""  # noqa: S608 - names of ours
_NEXT_DUE = "SELECT min(due_at) FROM schedules WHERE paused = 0 AND due_at > ?"
_ADVANCED = "UPDATE schedules SET next_at = ?1, due_at = ?1, latest = ?2 WHERE id = ?3"
# The time that its pause took from a run is again to come: nothing before it, whose runs may have been sent early or cancelled.
_AGAIN = """
UPDATE schedules SET paused = 0, due_at = ?1, next_at = CASE
    WHEN due_at = next_at AND EXISTS (SELECT 1 FROM deliveries WHERE id = latest AND state = 'cancelled' AND attempts = 0)
    THEN next_at - 1 ELSE next_at END WHERE id = ?2
"""


def advance(transaction: Transaction, calls: list[Sequence[NextRun]]) -> Results[int]:
    """Make runs; a call that names a lane that leads elsewhere is refused as a whole."""
    return [_advance(transaction, runs) for runs in calls]


def change(transaction: Transaction, calls: list[tuple[str, bool]]) -> Results[Schedule | None]:
    """Pause or resume schedules."""
    for number, paused in calls:
        found = one(transaction.db, number)
        if found is None or found.paused == paused:
            continue
        if paused:
            transaction.db.execute("UPDATE schedules SET paused = 1 WHERE id = ?", (number,))
            _cancel(transaction, found)
        else:
            transaction.db.execute(_AGAIN, (transaction.now, number))
        _tell(transaction, "schedule.paused" if paused else "schedule.resumed", found)
    return [one(transaction.db, number) for number, _ in calls]


def remove(transaction: Transaction, calls: list[str]) -> Results[bool]:
    """End schedules."""
    results: Results[bool] = []
    for number in calls:
        found = one(transaction.db, number)
        if found is not None:
            transaction.db.execute("DELETE FROM schedules WHERE id = ?", (number,))
            _cancel(transaction, found)
            _tell(transaction, "schedule.removed", found)
        results.append(found is not None)
    return results


def waits_no_more(transaction: Transaction, row: Row) -> None:
    """Let the run after this one be made, if it is the newest of a schedule: it will not be sent at its time."""
    text = "UPDATE schedules SET due_at = min(due_at, ?) WHERE latest = ?"
    transaction.db.execute(text, (transaction.now, row.id))


# Reading: each takes a connection, so the writer uses some inside its transactions too.


def due(db: sqlite3.Connection, now: int, most: int, after: DueSince | None, of: str | None) -> DueSchedules:
    """Return the schedules whose next run is to be made."""
    rows = db.execute(_DUE, (now, *(after or BEFORE_ALL), of, most)).fetchall()
    (later,) = db.execute(_NEXT_DUE, (now,)).fetchone()
    return due_page(rows, most, None if later is None else later - now)


def one(db: sqlite3.Connection, number: str) -> Schedule | None:
    """Return a schedule, or None."""
    row = db.execute(f"{_SCHEDULE} WHERE s.id = ?", (number,)).fetchone()
    return None if row is None else schedule_of(row)


def several(db: sqlite3.Connection, after: str, most: int) -> list[Schedule]:
    """Return schedules, the oldest first."""
    return [schedule_of(row) for row in db.execute(f"{_SCHEDULE} WHERE s.id > ? ORDER BY s.id LIMIT ?", (after, most))]


def _advance(transaction: Transaction, runs: Sequence[NextRun]) -> int | OptionsError:
    db, payloads = transaction.db, list[tuple[object, ...]]()
    found = [one(db, run.schedule) for run in runs]
    deliveries = [each.run for each in found if each is not None]
    if error := astray(deliveries, ways(transaction, deliveries)):
        return error
    for run in runs:
        of = one(db, run.schedule)
        if of is None or of.paused or of.next_at != run.before:
            continue
        number = insert(transaction, run_of(of.id, of.run, run.at, of.within), payloads, of.id)
        db.execute(_ADVANCED, (run.at, number, of.id))
    write_payloads(transaction, payloads)
    return len(payloads)


def _cancel(transaction: Transaction, of: Schedule) -> None:
    """Cancel the newest run, unless it was sent already."""
    cancelling = Change(transaction)
    for row in cancelling.find(
        "id = ? AND state = 'pending' AND phase IN (?, ?, ?)", of.latest, WAITING, READY, CLAIMED
    ):
        cancelling.cancel(row)
    cancelling.save()


def _tell(transaction: Transaction, kind: EventKind, of: Schedule) -> None:
    transaction.event(kind, lane=lane_of(transaction, of.run), delivery=of.latest, note=of.id)
