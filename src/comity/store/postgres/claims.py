"""Claims: from a lane's head to the end of an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from comity.errors import LeaseLost
from comity.store.known import LaneRef
from comity.store.postgres.change import Change
from comity.store.postgres.transaction import Transaction
from comity.store.records import Claim, Claimed, Ended, Lease
from comity.store.refusals import not_held, rescued
from comity.store.row import READY, SENDING
from comity.store.sharing import share
from comity.store.sums import Results
from comity.store.transitions import Step

_RIPE = 1000
"""So many deliveries whose time has come are made ready by one claim."""

_LOOK = """
SELECT EXISTS (SELECT FROM leases WHERE id = $1), (SELECT min(due_at) FROM deliveries WHERE phase = 1)
"""
_PROMOTE = """
WITH ripe AS (
    SELECT id FROM deliveries WHERE phase = 1 AND due_at <= $1 ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
), ready AS (
    UPDATE deliveries d SET phase = 2 FROM ripe WHERE d.id = ripe.id RETURNING d.lane
)
SELECT lane, count(*) FROM ready GROUP BY lane
"""
_OLDEST = "FROM deliveries n WHERE n.lane = {} AND n.in_line AND n.phase <> 0 ORDER BY n.created_at, n.id LIMIT 1"
_LANES = f"""
SELECT l.id, l.held, l.ready, l.ordered, CASE WHEN l.ordered THEN (SELECT n.phase {_OLDEST.format("l.id")}) END
FROM origins o JOIN lanes l ON l.origin = o.id
WHERE o.lease = $1 AND o.paused_until <= $2 AND o.blocked_until <= $2 AND l.waiting AND NOT l.paused
ORDER BY l.served_at, l.id LIMIT $3
"""  # noqa: S608 - texts of ours
_CLAIM = """
WITH heads AS (
    SELECT h.id FROM unnest($2::bigint[], $3::integer[]) s (lane, most), LATERAL ({} FOR UPDATE SKIP LOCKED) h
), claimed AS (
    UPDATE deliveries d SET phase = 3, lease = $1, fence = d.fence + 1 FROM heads WHERE d.id = heads.id
    RETURNING d.*
), served AS (
    UPDATE lanes l SET served_at = $4 + v.turn FROM unnest($2::bigint[]) WITH ORDINALITY v (lane, turn) WHERE l.id = v.lane
)
SELECT c.rank, c.id::text, c.fence, c.lane, c.method, c.url, c.priority, c.enqueued_at, c.deadline, c.max_attempts, c.mode,
    c.idempotency_key, c.attempts - c.apart, c.refusals, c.refusals_in_a_row, p.headers, p.body, p.options
FROM claimed c JOIN payloads p ON p.id = c.id
"""
_HEADS = _CLAIM.format(
    "SELECT d.id FROM deliveries d WHERE d.lane = s.lane AND d.phase = 2 ORDER BY d.rank, d.id LIMIT s.most"
)
# One that somebody else has locked lets nobody go before it.
_NEXT = _CLAIM.format(
    f"SELECT d.id FROM deliveries d WHERE d.id = (SELECT n.id {_OLDEST.format('s.lane')}) AND d.phase = 2"  # noqa: S608 - texts of ours
)
_BEGIN = """
UPDATE deliveries d SET began_at = $1, cost = v.cost, attempts = d.attempts + 1, version = d.version + 1
FROM unnest($2::begun_attempt[]) v
WHERE d.id = v.id AND d.lease = v.lease AND d.fence = v.fence AND d.began_at IS NULL
RETURNING d.id::text, d.fence, d.attempts
"""


async def claim(transaction: Transaction, calls: list[tuple[Lease, int]]) -> Results[Claimed]:
    """Claim for each call (lease, free slots)."""
    return [await _claim(transaction, lease, free) for lease, free in calls]


async def _claim(transaction: Transaction, by: Lease, free: int) -> Claimed | LeaseLost:
    db, now, lease = transaction.db, transaction.now, by.id
    holds, due = await db.fetchrow(_LOOK, lease)
    if not holds:
        return rescued(by)
    if due is not None and due <= now:
        for lane, ripe in await db.fetch(_PROMOTE, now, _RIPE):
            transaction.count(lane, "ready", ripe)
        _, due = await db.fetchrow(_LOOK, lease)
    await transaction.write_counts()
    lanes = await _lanes(transaction, lease, free)
    shares = share(free, [(held, 1 if ordered else ready) for _, held, ready, ordered, _ in lanes])
    turns = {lane[0]: most for lane, most in zip(lanes, shares, strict=True) if most}
    ordered = {lane[0] for lane in lanes if lane[3]}
    claims = await _heads(transaction, lease, turns, ordered) if turns else []
    return Claimed(claims=claims, next_due=due)


async def _lanes(transaction: Transaction, lease: int, free: int) -> list[Any]:
    """Return lanes in order of their turns; none of them is an ordered one whose next delivery cannot go."""
    while True:
        lanes: list[Any] = await transaction.db.fetch(_LANES, lease, transaction.now, free)
        stuck = [lane for lane, held, _, ordered, phase in lanes if ordered and (held or phase != READY)]
        if not stuck:
            return lanes
        # Noted, so that however many there are, no claim has to pass over them before something happens in them.
        await transaction.db.execute("UPDATE lanes SET waiting = false WHERE id = ANY($1::bigint[])", stuck)


async def _heads(transaction: Transaction, lease: int, turns: dict[int, int], ordered: set[int]) -> list[Claim]:
    """Claim so many of each lane."""
    db, now = transaction.db, transaction.now
    order = {lane: turn for turn, lane in enumerate(turns)}
    heads: list[Any] = []
    for text, lanes in (
        (_HEADS, [lane for lane in turns if lane not in ordered]),
        (_NEXT, [*(ordered & turns.keys())]),
    ):
        if lanes:
            heads += await db.fetch(text, lease, lanes, [turns[lane] for lane in lanes], now)
    heads.sort(key=lambda head: (order[head[3]], head[0], head[1]))
    known = await transaction.lanes_of(turns)
    claims: list[Claim] = []
    late: list[str] = []
    for head in heads:
        transaction.count(head[3], "ready", -1)
        transaction.count(head[3], "held", 1)
        if head[8] is not None and head[8] <= now:
            late.append(head[1])
        else:
            claims.append(_claim_of(lease, known[head[3]], head))
    await _fail_late(transaction, late)
    return claims


def _claim_of(lease: int, lane: LaneRef, head: Any) -> Claim:
    return Claim(
        row=int(head[1].replace("-", ""), 16),
        id=head[1],
        lease=lease,
        fence=head[2],
        lane=lane.key,
        origin=lane.origin_name,
        method=head[4],
        url=head[5],
        headers=head[15],
        body=head[16],
        options=head[17],
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


async def begin(transaction: Transaction, calls: list[tuple[Claim, bytes]]) -> Results[int]:
    """Commit the beginning of each attempt."""
    wanted = sorted((held.id, held.lease, held.fence, cost) for held, cost in calls)
    found = await transaction.db.fetch(_BEGIN, transaction.now, wanted)
    # Of two that begin one claim at once, the first does.
    begun = {(number, fence): attempt for number, fence, attempt in found}
    return [begun.pop((held.id, held.fence), None) or not_held(held) for held, _ in calls]


async def finish(transaction: Transaction, calls: list[tuple[Claim, Ended]]) -> Results[Step]:
    """End each attempt, and take its delivery on."""
    change = Change(transaction)
    await change.of([held.id for held, _ in calls])
    results: Results[Step] = []
    for held, ended in calls:
        row = change.claimed(held.id, held.lease, held.fence)
        if row is None or row.phase != SENDING:
            results.append(not_held(held))
        else:
            results.append(change.finish(row, _storable(ended)))
    await change.save()
    return results


async def give_back(transaction: Transaction, calls: list[tuple[Sequence[Claim], int, str | None]]) -> Results[int]:
    """Return each call's claims that still hold; their number is its result."""
    change = Change(transaction)
    await change.of([each.id for claims, *_ in calls for each in claims])
    results: Results[int] = []
    for claims, wait, error in calls:
        rows = [change.claimed(each.id, each.lease, each.fence) for each in claims]
        held = [row for row in rows if row is not None]
        for row in held:
            row.tell(error)
            change.let_go(row, transaction.now + wait)
        results.append(len(held))
    await change.save()
    return results


async def expire(transaction: Transaction, calls: list[int]) -> Results[int]:
    """Fail for each call up to so many deliveries whose deadline passed while they waited."""
    results: Results[int] = []
    for most in calls:
        change = Change(transaction)
        await change.find(
            "deadline IS NOT NULL AND phase IN (1, 2) AND deadline <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED",
            transaction.now,
            most,
        )
        results.append(await _fail(change))
    return results


async def _fail_late(transaction: Transaction, ids: Sequence[str]) -> None:
    if ids:
        change = Change(transaction)
        await change.of(ids)
        await _fail(change)


async def _fail(change: Change) -> int:
    rows = change.all()
    for row in rows:
        change.expire(row)
    await change.save()
    return len(rows)


def _storable(ended: Ended) -> Ended:
    """Return what Postgres takes: it has no place for a NUL, and errors quote what others sent."""
    if ended.error is None or "\0" not in ended.error:
        return ended
    return replace(ended, error=ended.error.replace("\0", "\N{REPLACEMENT CHARACTER}"))
