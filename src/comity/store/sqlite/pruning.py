"""Pruning: what is old enough goes, a little at a time, so that nobody waits long for the writer."""

from __future__ import annotations

import time

from comity.store.records import ENDS, Pruned, Retention
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results

_ENDED = """
SELECT n, lane FROM deliveries INDEXED BY deliveries_ended WHERE phase = 0 AND state = ? AND ended_at <= ?
ORDER BY ended_at LIMIT ?
"""
_OLD = {
    "keys": "DELETE FROM keys WHERE key IN (SELECT key FROM keys WHERE created_at <= ? LIMIT ?)",
    # The last event stays: its number must not come again.
    "events": "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at <= ? AND seq < (SELECT max(seq) FROM events) ORDER BY seq LIMIT ?)",
    "minutes": "DELETE FROM minutes WHERE (began_at, lane) IN (SELECT began_at, lane FROM minutes WHERE began_at <= ? LIMIT ?)",
}
# The first lane of an origin stays until that may go too, so that no origin is left without a lane.
_IDLE = """
SELECT l.id, l.key, l.origin FROM lanes l INDEXED BY lanes_idle JOIN origins o ON o.id = l.origin
WHERE l.emptied_at IS NOT NULL AND l.emptied_at <= ? AND l.paused = 0 AND l.ordered = 0
    AND l.limits = x'7b7d' AND (
    o.lease IS NULL AND o.gap = 0 AND max(o.paused_until, o.blocked_until) <= ?
    OR EXISTS (SELECT 1 FROM lanes f WHERE f.origin = l.origin AND f.id < l.id)
) ORDER BY l.emptied_at LIMIT ?
"""
_BARE = "DELETE FROM origins WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM lanes WHERE origin = ?1)"


def prune(transaction: Transaction, calls: list[tuple[Retention, int]]) -> Results[Pruned]:
    """Delete for each call up to so many rows of each kind."""
    return [_prune(transaction, retention, most) for retention, most in calls]


def _prune(transaction: Transaction, retention: Retention, most: int) -> Pruned:
    db, now, began = transaction.db, transaction.now, time.monotonic_ns()
    rows: list[tuple[int, int]] = []
    for state in ENDS:
        age = getattr(retention, state)
        found = db.execute(_ENDED, (state, now - age, most - len(rows))).fetchall()
        for _, lane in found:
            transaction.count(lane, state, -1)
        rows.extend(found)
    numbers = [(n,) for n, _ in rows]
    for table in ("attempts", "answers", "payloads", "deliveries"):
        db.executemany(f"DELETE FROM {table} WHERE n = ?", numbers)  # noqa: S608 - names of ours
    gone = {kind: db.execute(text, (now - getattr(retention, kind), most)).rowcount for kind, text in _OLD.items()}
    if max(gone.values()) < most:
        # Nothing old is left, so nothing that could name one of them.
        gone["lanes"], gone["origins"] = _prune_lanes(transaction, now - retention.lanes, most)
    more = max(len(rows), *gone.values()) >= most
    return Pruned(deliveries=len(rows), more=more, took=time.monotonic_ns() - began, **gone)


def _prune_lanes(transaction: Transaction, before: int, most: int) -> tuple[int, int]:
    """Delete lanes that nobody used since, and the origins to which then none leads; return how many of both."""
    db = transaction.db
    transaction.write_counts()
    last = db.execute("SELECT lane, origin FROM events ORDER BY seq DESC LIMIT 1").fetchone() or (None, None)
    idle = transaction.untold(db.execute(_IDLE, (before, transaction.now, most)).fetchall(), last)
    for _, key, _ in idle:
        transaction.forget_lane(key)
    db.executemany("DELETE FROM lanes WHERE id = ?", [(lane,) for lane, _, _ in idle])
    origins = {(origin,) for _, _, origin in idle}
    return len(idle), db.executemany(_BARE, sorted(origins)).rowcount if origins else 0
