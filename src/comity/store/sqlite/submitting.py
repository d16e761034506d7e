"""Submitting: new deliveries, each with its payload and key."""

from __future__ import annotations

from collections.abc import Sequence

from comity.errors import OptionsError
from comity.store.records import NewDelivery, Submitted
from comity.store.room import ALIVE, Call, Room
from comity.store.row import READY, WAITING
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results

_INSERT = """
INSERT INTO deliveries (id, lane, state, phase, method, url, priority, rank, mode, idempotency_key, created_at, enqueued_at,
    due_at, deadline, idle_since, max_attempts) VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PAYLOAD = "INSERT INTO payloads (n, options, headers, body) VALUES (?, ?, ?, ?)"
_KEYED = """
SELECT k.fingerprint, k.id, k.created_at, d.state FROM keys k LEFT JOIN deliveries d ON d.id = k.id WHERE k.key = ?
"""


def submit(transaction: Transaction, calls: list[Call]) -> Results[list[Submitted]]:
    """Store what each call brings; a call that cannot be stored as a whole is refused as a whole."""
    payloads: list[tuple[object, ...]] = []
    results: Results[list[Submitted]] = []
    room = Room(_alive(transaction) if any(most is not None for _, most in calls) else None, transaction.now)
    for new, most in calls:
        error = _astray(transaction, new)
        results.append(error or [_one(transaction, each, payloads, room, most) for each in new])
    transaction.db.executemany(_PAYLOAD, payloads)
    return results


def _astray(transaction: Transaction, new: Sequence[NewDelivery]) -> OptionsError | None:
    """Return what is wrong when a lane is named that leads to another origin."""
    leads_to: dict[str, str] = {}
    for each in new:
        key = each.lane or each.origin
        if key not in leads_to:
            lane = transaction.lane(key)
            leads_to[key] = each.origin if lane is None else lane.origin_name
        if leads_to[key] != each.origin:
            return OptionsError("lane", key, hint=f"it is a lane to {leads_to[key]}, not to {each.origin}")
    return None


def _alive(transaction: Transaction) -> int:
    alive: int = transaction.db.execute(ALIVE).fetchone()[0]
    return alive + transaction.live()


def _one(
    transaction: Transaction, new: NewDelivery, payloads: list[tuple[object, ...]], room: Room, most: int | None
) -> Submitted:
    if new.idempotency_key is not None and (before := _before(transaction, new)):
        return before
    if (full := room.take(most)) is not None:
        return full
    db, now = transaction.db, transaction.now
    lane = transaction.new_lane(new.lane or new.origin, new.origin)
    due_at = max(now + new.delay, new.run_at or 0)
    phase = READY if due_at <= now else WAITING
    number = transaction.ids.new(now)
    rank = now + new.priority * transaction.ageing
    row = db.execute(
        _INSERT,
        (
            number, lane.id, phase, new.method, new.url, new.priority, rank, new.mode, new.idempotency_key, now, now,
            due_at, new.deadline, now, new.max_attempts,
        ),
    ).lastrowid  # fmt: skip
    payloads.append((row, new.options, new.headers, new.body))
    if new.idempotency_key is not None:
        db.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", (new.idempotency_key, new.fingerprint, number, now))
    transaction.count(lane.id, "pending", 1)
    if phase == READY:
        transaction.count(lane.id, "ready", 1)
    transaction.event("pending", lane=lane.id, delivery=number)
    return Submitted(id=number, created_at=now)


def _before(transaction: Transaction, new: NewDelivery) -> Submitted | None:
    """Return what an earlier use of the key means for this one, or None when there was none."""
    row = transaction.db.execute(_KEYED, (new.idempotency_key,)).fetchone()
    if row is None:
        return None
    fingerprint, number, created_at, state = row
    return Submitted(
        id=number, outcome="replayed" if new.is_as(fingerprint) else "conflict", state=state, created_at=created_at
    )
