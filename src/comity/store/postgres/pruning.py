"""Pruning: what is old enough goes, a little at a time, so that nobody waits long."""

from __future__ import annotations

import time
from collections import Counter

from comity.store.postgres.transaction import Transaction
from comity.store.records import ENDS, Pruned, Retention
from comity.store.sums import Results

# What others have locked is passed over until the next time, so nobody waits here, and two who prune share the work. One statement
# does it all: each of nine would wait for its turn on a busy machine. Ids come as arrays, as an index is to be used for few of many.
_ENDS = " UNION ALL ".join(
    f"SELECT * FROM (SELECT id, lane, state FROM deliveries WHERE phase = 0 AND state = '{state}' AND ended_at <= ${place} "  # noqa: S608 - words of ours
    f"ORDER BY ended_at LIMIT $6 FOR UPDATE SKIP LOCKED) {state}"
    for place, state in enumerate(ENDS, 1)
)
_OLD = f"""
WITH old AS MATERIALIZED (SELECT * FROM ({_ENDS}) found LIMIT $6),
tried AS (DELETE FROM attempts WHERE id = ANY(ARRAY(SELECT id FROM old))),
answered AS (DELETE FROM answers WHERE id = ANY(ARRAY(SELECT id FROM old))),
paid AS (DELETE FROM payloads WHERE id = ANY(ARRAY(SELECT id FROM old))),
gone AS (DELETE FROM deliveries WHERE id = ANY(ARRAY(SELECT id FROM old)) RETURNING lane, state),
keyed AS (
    DELETE FROM keys WHERE key = ANY(ARRAY(SELECT key FROM keys WHERE created_at <= $4 ORDER BY created_at LIMIT $6 FOR UPDATE SKIP LOCKED))
    RETURNING 1
),
told AS (
    -- The last event stays, as with every store.
    DELETE FROM events WHERE seq = ANY(ARRAY(
        SELECT seq FROM events WHERE at <= $5 AND seq < (SELECT seq FROM store) ORDER BY seq LIMIT $6 FOR UPDATE SKIP LOCKED
    )) RETURNING 1
)
SELECT 'keys', NULL::bigint, count(*) FROM keyed UNION ALL SELECT 'events', NULL::bigint, count(*) FROM told
UNION ALL SELECT state, lane, count(*) FROM gone GROUP BY state, lane
"""  # noqa: S608 - texts of ours
_MINUTES = (
    "DELETE FROM minutes WHERE (began_at, lane) IN (SELECT began_at, lane FROM minutes WHERE began_at <= $1 LIMIT $2)"
)
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
    """Delete for each call up to so many deliveries, keys and events."""
    return [await _prune(transaction, retention, most) for retention, most in calls]


async def prune_lanes(transaction: Transaction, calls: list[tuple[Retention, int]]) -> Results[Pruned]:
    """Delete for each call up to so many sums of minutes, and when none of them are left lanes and origins."""
    return [await _prune_lanes(transaction, retention, most) for retention, most in calls]


async def _prune(transaction: Transaction, retention: Retention, most: int) -> Pruned:
    now, began = transaction.now, time.monotonic_ns()
    before = [now - getattr(retention, kind) for kind in (*ENDS, "keys", "events")]
    gone: Counter[str] = Counter()
    for kind, lane, count in await transaction.db.fetch(_OLD, *before, most):
        gone["deliveries" if kind in ENDS else kind] += count
        if lane is not None:
            transaction.count(lane, kind, -count)
    return Pruned(more=max(gone.values()) >= most, took=time.monotonic_ns() - began, **gone)


async def _prune_lanes(transaction: Transaction, retention: Retention, most: int) -> Pruned:
    db, began = transaction.db, time.monotonic_ns()
    lanes = origins = 0
    minutes = _count(await db.execute(_MINUTES, transaction.now - retention.minutes, most))
    if minutes < most:
        # Nothing old is left, so nothing that could name one of them.
        lanes, origins = await _idle(transaction, transaction.now - retention.lanes, most)
    more = max(minutes, lanes, origins) >= most
    return Pruned(minutes=minutes, lanes=lanes, origins=origins, more=more, took=time.monotonic_ns() - began)


async def _idle(transaction: Transaction, before: int, most: int) -> tuple[int, int]:
    """Delete lanes that nobody used since, and the origins to which then none leads; return how many of both."""
    db = transaction.db
    await transaction.write_counts()
    last = await db.fetchrow("SELECT lane, origin FROM events WHERE seq = (SELECT seq FROM store)") or (None, None)
    idle = transaction.untold(await db.fetch(_IDLE, before, transaction.now, most), last)
    if not idle:
        return 0, 0
    await transaction.forget_lanes(key for _, key, _ in idle)
    await db.execute("DELETE FROM lanes WHERE id = ANY($1::bigint[])", [lane for lane, _, _ in idle])
    return len(idle), _count(await db.execute(_BARE, list({origin for _, _, origin in idle})))


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
