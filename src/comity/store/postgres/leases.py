"""Leases: how long a worker keeps what it took, and what becomes of it afterwards."""

from __future__ import annotations

from comity.store.postgres.change import Change
from comity.store.postgres.transaction import Transaction
from comity.store.records import Lease, Renewal, Rescued
from comity.store.refusals import rescued
from comity.store.row import SENDING
from comity.store.sums import Results


async def register(transaction: Transaction, calls: list[tuple[str, int]]) -> Results[Lease]:
    """Give each call (worker, lasting) a lease."""
    results: Results[Lease] = []
    for worker, lasting in calls:
        ends = transaction.now + lasting
        number = await transaction.db.fetchval(
            "INSERT INTO leases (worker, lasting, expires_at) VALUES ($1, $2, $3) RETURNING id", worker, lasting, ends
        )
        results.append(Lease(id=number, worker=worker, lasting=lasting, expires_at=ends))
    return results


async def renew(transaction: Transaction, calls: list[Lease]) -> Results[Renewal]:
    """Let each lease last on."""
    db = transaction.db
    results: Results[Renewal] = []
    for lease in calls:
        ends = transaction.now + lease.lasting
        found = await db.fetchval("UPDATE leases SET expires_at = $1 WHERE id = $2 RETURNING id", ends, lease.id)
        if found is None:
            results.append(rescued(lease))
            continue
        renewed = Lease(id=lease.id, worker=lease.worker, lasting=lease.lasting, expires_at=ends)
        rows = await db.fetch("SELECT id::text FROM deliveries WHERE lease = $1 AND cancelling = 1", lease.id)
        results.append(Renewal(lease=renewed, cancelling=[row[0] for row in rows]))
    return results


async def resign(transaction: Transaction, calls: list[Lease]) -> Results[None]:
    """End each lease."""
    for lease in calls:
        await _end(transaction, lease.id, 0)
    return [None] * len(calls)


async def rescue(transaction: Transaction, calls: list[int]) -> Results[Rescued]:
    """End the leases that ran out; each call brings its jitter, ns."""
    results: Results[Rescued] = []
    for jitter in calls:
        late = await transaction.db.fetch("SELECT id FROM leases WHERE expires_at <= $1", transaction.now)
        returned = ended = 0
        for (lease,) in late:
            back, over = await _end(transaction, lease, jitter)
            returned += back
            ended += over
        results.append(Rescued(leases=len(late), returned=returned, ended=ended))
    return results


async def _end(transaction: Transaction, lease: int, jitter: int) -> tuple[int, int]:
    """End a lease; return how many deliveries may be claimed again, and how many came to an end."""
    change = Change(transaction)
    rows = await change.find("lease = $1", lease)
    for row in rows:
        if row.phase == SENDING:
            change.lose(row, jitter)
        else:
            row.wait(row.due_at, transaction.now)
    await change.save()
    freed = await transaction.db.fetch("UPDATE origins SET lease = NULL WHERE lease = $1 RETURNING id", lease)
    for (origin,) in freed:
        transaction.event("origin.released", origin=origin)
    await transaction.db.execute("DELETE FROM leases WHERE id = $1", lease)
    ended = sum(row.ended_at is not None for row in rows)
    return len(rows) - ended, ended
