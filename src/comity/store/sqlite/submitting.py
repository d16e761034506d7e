"""Submitting: new deliveries, each with its payload and key."""

from __future__ import annotations

from collections.abc import Sequence

from comity.store.known import Way
from comity.store.lane_rules import astray
from comity.store.records import NewDelivery, Submitted
from comity.store.schedules import NewSchedule, run_of
from comity.store.sqlite.transaction import Transaction
from comity.store.submission import ALIVE, Call, Room, born, used_before
from comity.store.sums import Results

_INSERT = """
INSERT INTO deliveries (id, lane, state, phase, method, url, priority, rank, mode, idempotency_key, created_at, enqueued_at,
    due_at, deadline, idle_since, max_attempts, in_line, schedule)
VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PAYLOAD = "INSERT INTO payloads (n, options, headers, body) VALUES (?, ?, ?, ?)"
_KEY = "INSERT INTO keys (key, fingerprint, id, created_at, schedule) VALUES (?, ?, ?, ?, ?)"
_KEYED = """
SELECT k.fingerprint, k.id, k.created_at, d.state, k.schedule FROM keys k LEFT JOIN deliveries d ON d.id = k.id WHERE k.key = ?
"""
_SCHEDULE = """
INSERT INTO schedules (id, template, cron, zone, overlap, within, next_at, due_at, latest, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def submit(transaction: Transaction, calls: list[Call]) -> Results[list[Submitted]]:
    """Store what each call brings; a call that cannot be stored as a whole is refused as a whole."""
    payloads: list[tuple[object, ...]] = []
    results: Results[list[Submitted]] = []
    room = Room(_alive(transaction) if any(most is not None for _, most in calls) else None, transaction.now)
    for new, most in calls:
        deliveries = [each.run if isinstance(each, NewSchedule) else each for each in new]
        error = astray(deliveries, ways(transaction, deliveries))
        results.append(error or [_one(transaction, each, payloads, room, most) for each in new])
    write_payloads(transaction, payloads)
    return results


def ways(transaction: Transaction, new: Sequence[NewDelivery]) -> dict[str, Way]:
    """Return how the lanes are that there are already."""
    found = {each.lane_key: transaction.lane(each.lane_key) for each in new}
    return {key: lane.way for key, lane in found.items() if lane is not None}


def insert(
    transaction: Transaction, new: NewDelivery, payloads: list[tuple[object, ...]], schedule: str | None = None
) -> str:
    """Store a delivery but for its payload, which is added to `payloads`; return its id."""
    now = transaction.now
    lane = transaction.new_lane(new.lane_key, new.origin, ordered=new.ordered)
    number = transaction.ids.new(now)
    phase, due_at, rank = born(transaction, number, new, lane.id)
    row = transaction.db.execute(
        _INSERT,
        (
            number, lane.id, phase, new.method, new.url, new.priority, rank, new.mode, new.idempotency_key, now, now,
            due_at, new.deadline, now, new.max_attempts, lane.ordered, schedule,
        ),
    ).lastrowid  # fmt: skip
    payloads.append((row, new.options, new.headers, new.body))
    return number


def write_payloads(transaction: Transaction, payloads: list[tuple[object, ...]]) -> None:
    """Store the payloads of what was inserted."""
    transaction.db.executemany(_PAYLOAD, payloads)


def _alive(transaction: Transaction) -> int:
    alive: int = transaction.db.execute(ALIVE).fetchone()[0]
    return alive + transaction.live()


def _one(
    transaction: Transaction,
    new: NewDelivery | NewSchedule,
    payloads: list[tuple[object, ...]],
    room: Room,
    most: int | None,
) -> Submitted:
    if new.idempotency_key is not None and (before := _before(transaction, new)):
        return before
    if (full := room.take(most)) is not None:
        return full
    db, now = transaction.db, transaction.now
    schedule = None
    if isinstance(new, NewSchedule):
        schedule = transaction.ids.new(now)
        number = insert(transaction, run_of(schedule, new.run, new.first_at, new.within), payloads, schedule)
        at = new.first_at
        row = (schedule, new.template, new.cron, new.zone, new.overlap, new.within, at, at, number, now)
        db.execute(_SCHEDULE, row)
        transaction.event("schedule.created", lane=lane_of(transaction, new.run), delivery=number, note=schedule)
    else:
        number = insert(transaction, new, payloads)
    if new.idempotency_key is not None:
        db.execute(_KEY, (new.idempotency_key, new.fingerprint, number, now, schedule))
    return Submitted(id=number, created_at=now, schedule=schedule)


def lane_of(transaction: Transaction, run: NewDelivery) -> int | None:
    """Return the number of the lane that a run stands in."""
    lane = transaction.lane(run.lane_key)
    return lane and lane.id


def _before(transaction: Transaction, new: NewDelivery | NewSchedule) -> Submitted | None:
    """Return what an earlier use of the key means for this one, or None when there was none."""
    row = transaction.db.execute(_KEYED, (new.idempotency_key,)).fetchone()
    return None if row is None else used_before(new, row)
