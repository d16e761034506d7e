"""Leases: how long a worker keeps what it took, and what becomes of it afterwards."""

from __future__ import annotations

from comity.store.records import Lease, Renewal, Rescued
from comity.store.refusals import rescued
from comity.store.row import SENDING
from comity.store.sqlite.change import Change
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results


def holds(transaction: Transaction, lease: int) -> bool:
    """Return whether a lease was not rescued."""
    return transaction.db.execute("SELECT 1 FROM leases WHERE id = ?", (lease,)).fetchone() is not None


def register(transaction: Transaction, calls: list[tuple[str, int]]) -> Results[Lease]:
    """Give each call (worker, lasting) a lease."""
    results: Results[Lease] = []
    for worker, lasting in calls:
        ends = transaction.now + lasting
        number = transaction.db.execute(
            "INSERT INTO leases (worker, lasting, expires_at) VALUES (?, ?, ?)", (worker, lasting, ends)
        ).lastrowid
        assert number is not None
        results.append(Lease(id=number, worker=worker, lasting=lasting, expires_at=ends))
    return results


def renew(transaction: Transaction, calls: list[Lease]) -> Results[Renewal]:
    """Let each lease last on."""
    db = transaction.db
    results: Results[Renewal] = []
    for lease in calls:
        ends = transaction.now + lease.lasting
        if not db.execute("UPDATE leases SET expires_at = ? WHERE id = ?", (ends, lease.id)).rowcount:
            results.append(rescued(lease))
            continue
        renewed = Lease(id=lease.id, worker=lease.worker, lasting=lease.lasting, expires_at=ends)
        cancelling = db.execute("SELECT id FROM deliveries WHERE lease = ? AND cancelling = 1", (lease.id,)).fetchall()
        results.append(Renewal(lease=renewed, cancelling=[row[0] for row in cancelling]))
    return results


def resign(transaction: Transaction, calls: list[Lease]) -> Results[None]:
    """End each lease."""
    for lease in calls:
        _end(transaction, lease.id, 0)
    return [None] * len(calls)


def rescue(transaction: Transaction, calls: list[int]) -> Results[Rescued]:
    """End the leases that ran out; each call brings its jitter, ns."""
    results: Results[Rescued] = []
    for jitter in calls:
        late = transaction.db.execute("SELECT id FROM leases WHERE expires_at <= ?", (transaction.now,)).fetchall()
        returned = ended = 0
        for (lease,) in late:
            back, over = _end(transaction, lease, jitter)
            returned += back
            ended += over
        results.append(Rescued(leases=len(late), returned=returned, ended=ended))
    return results


def _end(transaction: Transaction, lease: int, jitter: int) -> tuple[int, int]:
    """End a lease; return how many deliveries may be claimed again, and how many came to an end."""
    change = Change(transaction)
    rows = change.find("lease = ?", lease)
    for row in rows:
        if row.phase == SENDING:
            change.lose(row, jitter)
        else:
            row.wait(row.due_at, transaction.now)
    change.save()
    for (origin,) in transaction.db.execute(
        "UPDATE origins SET lease = NULL WHERE lease = ? RETURNING id", (lease,)
    ).fetchall():
        transaction.event("origin.released", origin=origin)
    transaction.db.execute("DELETE FROM leases WHERE id = ?", (lease,))
    ended = sum(row.ended_at is not None for row in rows)
    return len(rows) - ended, ended
