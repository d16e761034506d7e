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
# The first lane of an origin stays until that may go too, so that no origin is left without a lane.
_IDLE = """
SELECT l.id, l.key, l.origin FROM lanes l JOIN origins o ON o.id = l.origin
WHERE l.emptied_at IS NOT NULL AND l.emptied_at <= $1 AND NOT l.paused AND NOT l.ordered
    AND l.limits = '{}' AND (
    o.lease IS NULL AND o.gap = 0 AND greatest(o.paused_until, o.blocked_until) <= $2
    OR EXISTS (SELECT FROM lanes f WHERE f.origin = l.origin AND f.id < l.id)
) ORDER BY l.emptied_at LIMIT $3
"""
_BARE = "DELETE FROM origins o WHERE id = ANY($1::bigint[]) AND NOT EXISTS (SELECT FROM lanes l WHERE l.origin = o.id)"


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
    gone = {kind: _count(await db.execute(text, now - getattr(retention, kind), most)) for kind, text in _OLD.items()}
    if max(gone.values()) < most:
        # Nothing old is left, so nothing that could name one of them.
        gone["lanes"], gone["origins"] = await _prune_lanes(transaction, now - retention.lanes, most)
    more = max(len(rows), *gone.values()) >= most
    return Pruned(deliveries=len(rows), more=more, **{"lanes": 0, "origins": 0} | gone)


async def _prune_lanes(transaction: Transaction, before: int, most: int) -> tuple[int, int]:
    """Delete lanes that nobody used since, and the origins to which then none leads; return how many of both."""
    db = transaction.db
    await transaction.write_counts()
    # The last event stays, and its names with it.
    last = await db.fetchrow("SELECT lane, origin FROM events WHERE seq = (SELECT seq FROM store)") or (None, None)
    told = [{each, *others} for each, others in zip(last, transaction.told_of(), strict=True)]
    found = await db.fetch(_IDLE, before, transaction.now, most)
    idle = [(lane, key, origin) for lane, key, origin in found if lane not in told[0] and origin not in told[1]]
    if not idle:
        return 0, 0
    await transaction.forget_lanes(key for _, key, _ in idle)
    await db.execute("DELETE FROM lanes WHERE id = ANY($1::bigint[])", [lane for lane, _, _ in idle])
    return len(idle), _count(await db.execute(_BARE, list({origin for _, _, origin in idle})))


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
