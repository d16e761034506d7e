"""Origins and lanes: who owns an origin, what is known of it, and how its queues stand."""

from __future__ import annotations

from collections.abc import Sequence

from comity.store.known import Way
from comity.store.lane_rules import LaneChange, overfull, why_paused
from comity.store.postgres.change import Change
from comity.store.postgres.reading import lane as read_lane, share
from comity.store.postgres.transaction import Transaction
from comity.store.reading import filled
from comity.store.records import Lane, Lease, Origin
from comity.store.refusals import not_owned, rescued
from comity.store.sums import Results

_FREE = """
SELECT o.id FROM origins o WHERE o.lease IS NULL AND o.wanted
    AND NOT EXISTS (SELECT FROM lanes l WHERE l.origin = o.id AND l.held > 0) ORDER BY o.id LIMIT $1
"""
_LOOK = f"SELECT EXISTS (SELECT FROM leases WHERE id = $2), EXISTS ({_FREE}), (SELECT count(*) FROM leases)"  # noqa: S608 - texts of ours
_OWN = f"""
UPDATE origins o SET lease = $2 FROM ({_FREE}) f WHERE o.id = f.id
RETURNING o.id, o.name, o.lease, o.paused_until, o.blocked_until, o.gap
"""  # noqa: S608 - texts of ours
_HOLD = """
UPDATE origins SET paused_until = $1, blocked_until = $2, gap = $3
WHERE name = $4 AND coalesce(lease = $5, EXISTS (SELECT FROM leases WHERE id = $5)) RETURNING id
"""
_CHANGE_LANE = """
UPDATE lanes SET paused = coalesce($1, paused), limits = coalesce($2, limits),
    pause_reason = CASE WHEN $1 IS NULL THEN pause_reason END,
    failing_since = CASE WHEN $1 IS DISTINCT FROM false THEN failing_since END,
    emptied_at = CASE WHEN emptied_at IS NOT NULL THEN $3::bigint END WHERE key = $4 RETURNING id
"""
_FAILING = """
SELECT id, key, failing_since FROM lanes WHERE failing_since IS NOT NULL AND NOT paused
AND failing_since <= $1 AND failed_at - failing_since >= $2 LIMIT $3
"""


async def own(transaction: Transaction, calls: list[tuple[Lease, int, int]]) -> Results[list[Origin]]:
    """Take origins for each call (lease, most, beyond)."""
    results: Results[list[Origin]] = []
    for lease, most, beyond in calls:
        holds, free, leases = await transaction.db.fetchrow(_LOOK, 1, lease.id)
        if not holds:
            results.append(rescued(lease))
            continue
        # A look first: mostly there is none, and then nobody else is held up.
        if not free:
            results.append([])
            continue
        await transaction.write_counts()
        allowed = most
        if leases > 1:
            found = await share(transaction.db, lease.id)
            allowed = min(most, max(0, found.fair - found.owned + beyond))
        rows = await transaction.db.fetch(_OWN, allowed, lease.id)
        for row in rows:
            transaction.event("origin.owned", origin=row[0], note=lease.worker)
        results.append([filled(Origin, list(row)[1:]) for row in rows])
    return results


async def disown(transaction: Transaction, calls: list[tuple[Lease, Sequence[str]]]) -> Results[None]:
    """Leave each call's origins to others."""
    change = Change(transaction)
    for lease, names in calls:
        freed = await transaction.db.fetch(
            "UPDATE origins SET lease = NULL WHERE name = ANY($1::text[]) AND lease = $2 RETURNING id", names, lease.id
        )
        for (origin,) in freed:
            transaction.event("origin.released", origin=origin)
            where = "lease = $1 AND began_at IS NULL AND lane IN (SELECT id FROM lanes WHERE origin = $2)"
            for row in await change.find(where, lease.id, origin):
                change.let_go(row, row.due_at)
    await change.save()
    return [None] * len(calls)


async def hold(transaction: Transaction, calls: list[tuple[Lease, str, int, int, int, str]]) -> Results[None]:
    """Write down what each owner learned: pause, block and gap."""
    await transaction.lock()
    results: Results[None] = []
    for lease, name, pause, block, gap, why in calls:
        paused_until, blocked_until = (transaction.now + wait if wait else 0 for wait in (pause, block))
        found = await transaction.db.fetchval(_HOLD, paused_until, blocked_until, gap, name, lease.id)
        if found is None:
            results.append(not_owned(name, lease))
            continue
        note = "blocked" if block else "paused" if pause else "free"
        transaction.event("origin.held", origin=found, note=f"{note}: {why}" if why else note)
        results.append(None)
    return results


async def change_lane(transaction: Transaction, calls: list[LaneChange]) -> Results[Lane | None]:
    """Pause, resume, limit or order each call's lane."""
    results: Results[Lane | None] = []
    for key, paused, limits, ordered, origin in calls:
        await transaction.write_counts()
        if origin is not None:
            await transaction.make_lanes({key: Way(origin, bool(ordered))})
        before = await read_lane(transaction.db, key)
        if before is not None and ordered and not before.ordered and (error := overfull(before)):
            results.append(error)
            continue
        if before is not None:
            number = await transaction.db.fetchval(_CHANGE_LANE, paused, limits, transaction.now, key)
            if paused is not None and paused != before.paused:
                transaction.event("lane.paused" if paused else "lane.resumed", lane=number)
            if limits is not None:
                transaction.event("lane.limits", lane=number)
            if ordered is not None and ordered != before.ordered:
                await _order(transaction, key, number, ordered=ordered)
        results.append(before and await read_lane(transaction.db, key))
    return results


async def _order(transaction: Transaction, key: str, number: int, *, ordered: bool) -> None:
    """Let a lane be ordered from now on, or no longer."""
    db = transaction.db
    await db.execute("UPDATE lanes SET ordered = $1, waiting = ready > 0 WHERE id = $2", ordered, number)
    await transaction.forget_lanes([key])
    transaction.event("lane.ordered" if ordered else "lane.unordered", lane=number)
    if ordered:
        await db.execute(
            "UPDATE deliveries SET in_line = true WHERE lane = $1 AND state IN ('pending', 'retrying') AND NOT in_line",
            number,
        )
        # Several may have been claimed, in another order.
        change = Change(transaction)
        for row in await change.find("lease IS NOT NULL AND began_at IS NULL AND lane = $1", number):
            change.let_go(row, row.due_at)
        await change.save()
        await transaction.write_counts()


async def disable(transaction: Transaction, calls: list[tuple[int, int]]) -> Results[list[Lane]]:
    """Pause for each call (after, most) lanes that did nothing but fail."""
    db = transaction.db
    results: Results[list[Lane]] = []
    for after, most in calls:
        if await db.fetch(_FAILING, transaction.now - after, after, 1):
            await transaction.write_counts()
        failing = await db.fetch(_FAILING, transaction.now - after, after, most)
        for number, _, since in failing:
            reason = why_paused(since)
            await db.execute("UPDATE lanes SET paused = true, pause_reason = $1 WHERE id = $2", reason, number)
            transaction.event("lane.paused", lane=number, note=reason)
        found = [await read_lane(db, key) for _, key, _ in failing]
        results.append([lane for lane in found if lane is not None])
    return results


async def unblock(transaction: Transaction, calls: list[str]) -> Results[Lane | None]:
    """End pause and block of the origin of each lane."""
    await transaction.write_counts()
    results: Results[Lane | None] = []
    for key in calls:
        before = await read_lane(transaction.db, key)
        if before is not None:
            origin = await transaction.db.fetchval(
                "UPDATE origins SET paused_until = 0, blocked_until = 0 WHERE name = $1 RETURNING id",
                before.origin.name,
            )
            transaction.event("origin.unblocked", origin=origin)
        results.append(before and await read_lane(transaction.db, key))
    return results
