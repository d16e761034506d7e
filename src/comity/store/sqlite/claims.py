"""Claims: from a lane's head to the end of an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comity.errors import LeaseLost
from comity.store.records import Claim, Claimed, Ended, Lease
from comity.store.refusals import not_held, rescued
from comity.store.row import READY, SENDING
from comity.store.sharing import share
from comity.store.sqlite.change import Change
from comity.store.sqlite.leases import holds
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results
from comity.store.transitions import Step

_RIPE = 1000
"""So many deliveries whose time has come are made ready by one claim."""

_PROMOTE = """
UPDATE deliveries SET phase = 2 WHERE n IN (
    SELECT n FROM deliveries INDEXED BY deliveries_waiting WHERE phase = 1 AND due_at <= ? ORDER BY due_at LIMIT ?
) RETURNING lane
"""
_OLDEST = "FROM deliveries d INDEXED BY deliveries_line WHERE d.lane = {} AND d.in_line = 1 AND d.phase <> 0 ORDER BY d.n LIMIT "
_LANES = f"""
SELECT l.id, l.held, l.ready, l.ordered, CASE WHEN l.ordered THEN (SELECT d.phase {_OLDEST.format("l.id")} 1) END
FROM lanes l INDEXED BY lanes_ready JOIN origins o ON o.id = l.origin
WHERE l.ready > 0 AND l.paused = 0 AND l.stuck = 0 AND o.lease = ?1 AND o.paused_until <= ?2 AND o.blocked_until <= ?2
ORDER BY l.served_at LIMIT ?3
"""  # noqa: S608 - texts of ours
_CLAIM = """
UPDATE deliveries SET phase = 3, lease = ?, fence = fence + 1 WHERE n IN ({})
RETURNING rank, n, id, fence, method, url, priority, enqueued_at, deadline, max_attempts, mode, idempotency_key,
    attempts - apart, refusals, refusals_in_a_row
"""
_HEADS = _CLAIM.format(
    "SELECT n FROM deliveries INDEXED BY deliveries_ready WHERE lane = ? AND phase = 2 ORDER BY rank, n LIMIT ?"
)
_NEXT = _CLAIM.format(f"SELECT n {_OLDEST.format('?')} ?")
_BEGIN = """
UPDATE deliveries SET phase = 4, attempts = attempts + 1, version = version + 1
WHERE n = ? AND lease = ? AND fence = ? AND phase = 3 RETURNING attempts, idle_since, lane
"""
_ATTEMPT = "INSERT INTO attempts (n, number, origin, started_at, waited, cost) VALUES (?, ?, ?, ?, ?, ?)"


def claim(transaction: Transaction, calls: list[tuple[Lease, int]]) -> Results[Claimed]:
    """Claim for each call (lease, free slots)."""
    return [_claim(transaction, lease, free) for lease, free in calls]


def _claim(transaction: Transaction, by: Lease, free: int) -> Claimed | LeaseLost:
    db, now, lease = transaction.db, transaction.now, by.id
    if not holds(transaction, lease):
        return rescued(by)
    for (lane,) in db.execute(_PROMOTE, (now, _RIPE)).fetchall():
        transaction.count(lane, "ready", 1)
    transaction.write_counts()
    lanes = _lanes(transaction, lease, free)
    claims: list[Claim] = []
    late: list[int] = []
    shares = share(free, [(lane[1], 1 if lane[3] else lane[2]) for lane in lanes])
    for turn, (lane, most) in enumerate(zip(lanes, shares, strict=True)):
        if not most:
            continue
        heads = sorted(db.execute(_NEXT if lane[3] else _HEADS, (lease, lane[0], most)).fetchall())
        transaction.count(lane[0], "ready", -len(heads))
        transaction.count(lane[0], "held", len(heads))
        db.execute("UPDATE lanes SET served_at = ? WHERE id = ?", (now + turn, lane[0]))
        for head in heads:
            if head[8] is not None and head[8] <= now:
                late.append(head[1])
            else:
                claims.append(_claim_of(transaction, lease, lane[0], head))
    _fail_late(transaction, late)
    (due,) = db.execute("SELECT min(due_at) FROM deliveries INDEXED BY deliveries_waiting WHERE phase = 1").fetchone()
    return Claimed(claims=claims, next_due=due)


def _lanes(transaction: Transaction, lease: int, free: int) -> list[tuple[Any, ...]]:
    """Return lanes in order of their turns; none of them is an ordered one whose next delivery cannot go."""
    while True:
        lanes = transaction.db.execute(_LANES, (lease, transaction.now, free)).fetchall()
        stuck = [(lane,) for lane, held, _, ordered, phase in lanes if ordered and (held or phase != READY)]
        if not stuck:
            return lanes
        # Noted, so that however many there are, no claim has to pass over them before something happens in them.
        transaction.db.executemany("UPDATE lanes SET stuck = 1 WHERE id = ?", stuck)


def _claim_of(transaction: Transaction, lease: int, lane: int, head: tuple[Any, ...]) -> Claim:
    options, headers, body = transaction.db.execute(
        "SELECT options, headers, body FROM payloads WHERE n = ?", (head[1],)
    ).fetchone()
    known = transaction.lane_of(lane)
    return Claim(
        row=head[1],
        id=head[2],
        lease=lease,
        fence=head[3],
        lane=known.key,
        origin=known.origin_name,
        method=head[4],
        url=head[5],
        headers=headers,
        body=body,
        options=options,
        priority=head[6],
        enqueued_at=head[7],
        deadline=head[8],
        max_attempts=head[9],
        mode=head[10],
        idempotency_key=head[11],
        attempts=head[12],
        refusals=head[13],
        refusals_in_a_row=head[14],
    )


def begin(transaction: Transaction, calls: list[tuple[Claim, bytes]]) -> Results[int]:
    """Commit the row of each attempt."""
    db, now = transaction.db, transaction.now
    rows: list[tuple[object, ...]] = []
    results: Results[int] = []
    for held, cost in calls:
        found = db.execute(_BEGIN, (held.row, held.lease, held.fence)).fetchone()
        if found is None:
            results.append(not_held(held))
            continue
        number, idle_since, lane = found
        rows.append((held.row, number, transaction.lane_of(lane).origin, now, now - idle_since, cost))
        results.append(number)
    db.executemany(_ATTEMPT, rows)
    return results


def finish(transaction: Transaction, calls: list[tuple[Claim, Ended]]) -> Results[Step]:
    """End each attempt, and take its delivery on."""
    change = Change(transaction)
    results: Results[Step] = []
    for held, ended in calls:
        row = change.claimed(held.row, held.lease, held.fence)
        if row is None or row.phase != SENDING:
            results.append(not_held(held))
        else:
            results.append(change.finish(row, ended))
    change.save()
    return results


def give_back(transaction: Transaction, calls: list[tuple[Sequence[Claim], int, str | None]]) -> Results[int]:
    """Return each call's claims that still hold; their number is its result."""
    change = Change(transaction)
    results: Results[int] = []
    for claims, wait, error in calls:
        rows = [change.claimed(each.row, each.lease, each.fence) for each in claims]
        held = [row for row in rows if row is not None]
        for row in held:
            row.tell(error)
            change.let_go(row, transaction.now + wait)
        results.append(len(held))
    change.save()
    return results


def expire(transaction: Transaction, calls: list[int]) -> Results[int]:
    """Fail for each call up to so many deliveries whose deadline passed while they waited."""
    results: Results[int] = []
    for most in calls:
        late = transaction.db.execute(
            "SELECT n FROM deliveries INDEXED BY deliveries_deadline WHERE deadline IS NOT NULL AND phase IN (1, 2) "
            "AND deadline <= ? LIMIT ?",
            (transaction.now, most),
        ).fetchall()
        _fail_late(transaction, [n for (n,) in late])
        results.append(len(late))
    return results


def _fail_late(transaction: Transaction, rows: Sequence[int]) -> None:
    change = Change(transaction)
    for n in rows:
        for row in change.find("n = ?", n):
            change.expire(row)
    change.save()
