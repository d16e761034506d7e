"""Pruning: what is old enough goes, a little at a time, so that nobody waits long for the writer."""

from __future__ import annotations

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


def prune(transaction: Transaction, calls: list[tuple[Retention, int]]) -> Results[Pruned]:
    """Delete for each call up to so many rows of each kind."""
    return [_prune(transaction, retention, most) for retention, most in calls]


def _prune(transaction: Transaction, retention: Retention, most: int) -> Pruned:
    db, now = transaction.db, transaction.now
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
    more = max(len(rows), *gone.values()) >= most
    return Pruned(deliveries=len(rows), more=more, **gone)
