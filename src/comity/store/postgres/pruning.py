"""Pruning: what is old enough goes, a little at a time, so that nobody waits long."""

from __future__ import annotations

from comity.store.postgres.transaction import Transaction
from comity.store.records import ENDS, Pruned, Retention
from comity.store.sums import Results

_ENDED = "SELECT id, lane FROM deliveries WHERE phase = 0 AND state = $1 AND ended_at <= $2 ORDER BY ended_at LIMIT $3"
_OLD = {
    "keys": "DELETE FROM keys WHERE key IN (SELECT key FROM keys WHERE created_at <= $1 LIMIT $2)",
    # The last event stays, as with every store.
    "events": "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at <= $1 AND seq < (SELECT seq FROM store) ORDER BY seq LIMIT $2)",
    "minutes": "DELETE FROM minutes WHERE (began_at, lane) IN (SELECT began_at, lane FROM minutes WHERE began_at <= $1 LIMIT $2)",
}


async def prune(transaction: Transaction, calls: list[tuple[Retention, int]]) -> Results[Pruned]:
    """Delete for each call up to so many rows of each kind."""
    return [await _prune(transaction, retention, most) for retention, most in calls]


async def _prune(transaction: Transaction, retention: Retention, most: int) -> Pruned:
    db, now = transaction.db, transaction.now
    rows: list[tuple[str, int]] = []
    for state in ENDS:
        found = await db.fetch(_ENDED, state, now - getattr(retention, state), most - len(rows))
        for _, lane in found:
            transaction.count(lane, state, -1)
        rows.extend(found)
    if rows:
        numbers = [row[0] for row in rows]
        for table in ("attempts", "answers", "payloads", "deliveries"):
            await db.execute(f"DELETE FROM {table} WHERE id = ANY($1::uuid[])", numbers)  # noqa: S608 - names of ours
    gone = {
        kind: int((await db.execute(text, now - getattr(retention, kind), most)).rpartition(" ")[2])
        for kind, text in _OLD.items()
    }
    more = max(len(rows), *gone.values()) >= most
    return Pruned(deliveries=len(rows), more=more, **gone)
