"""Origins and lanes: who owns an origin, what is known of it, and how its queues stand."""

from __future__ import annotations

from collections.abc import Sequence

from comity.store.lane_rules import LaneChange, overfull, why_paused
from comity.store.reading import filled
from comity.store.records import Lane, Lease, Origin
from comity.store.refusals import not_owned, rescued
from comity.store.row import CLAIMED
from comity.store.sqlite.change import Change
from comity.store.sqlite.leases import holds
from comity.store.sqlite.reading import lane as read_lane, share
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results

_FREE = """
SELECT o.id FROM origins o INDEXED BY origins_free WHERE o.lease IS NULL AND o.live > 0
    AND NOT EXISTS (SELECT 1 FROM lanes l WHERE l.origin = o.id AND l.held > 0) ORDER BY o.id LIMIT ?
"""
_CHANGE_LANE = """
UPDATE lanes SET paused = coalesce(?1, paused), limits = coalesce(?2, limits),
    pause_reason = CASE WHEN ?1 IS NULL THEN pause_reason END,
    failing_since = CASE WHEN ?1 = 0 THEN NULL ELSE failing_since END,
    emptied_at = CASE WHEN emptied_at IS NOT NULL THEN ?3 END WHERE key = ?4
"""
_FAILING = """
SELECT id, key, failing_since FROM lanes INDEXED BY lanes_failing WHERE failing_since IS NOT NULL AND paused = 0
AND failing_since <= ? AND failed_at - failing_since >= ? LIMIT ?
"""
_LOOK = f"SELECT EXISTS ({_FREE}), (SELECT count(*) FROM leases)"  # noqa: S608 - texts of ours
_OWN = f"""
UPDATE origins SET lease = ? WHERE id IN ({_FREE})
RETURNING id, name, lease, paused_until, blocked_until, gap
"""  # noqa: S608 - texts of ours


def own(transaction: Transaction, calls: list[tuple[Lease, int, int]]) -> Results[list[Origin]]:
    """Take origins for each call (lease, most, beyond)."""
    results: Results[list[Origin]] = []
    transaction.write_counts()
    for lease, most, beyond in calls:
        if not holds(transaction, lease.id):
            results.append(rescued(lease))
            continue
        rows = []
        if (allowed := _allowed(transaction, lease, most, beyond)) > 0:
            rows = transaction.db.execute(_OWN, (lease.id, allowed)).fetchall()
        for row in rows:
            transaction.event("origin.owned", origin=row[0], note=lease.worker)
        results.append([filled(Origin, row[1:]) for row in rows])
    return results


def _allowed(transaction: Transaction, lease: Lease, most: int, beyond: int) -> int:
    """Return how many of the free origins a lease may take; mostly there is none, and nothing to count."""
    free, leases = transaction.db.execute(_LOOK, (1,)).fetchone()
    if not free or leases == 1:
        return most if free else 0
    found = share(transaction.db, lease.id)
    return min(most, found.fair - found.owned + beyond)


def disown(transaction: Transaction, calls: list[tuple[Lease, Sequence[str]]]) -> Results[None]:
    """Leave each call's origins to others."""
    change = Change(transaction)
    for lease, names in calls:
        for name in names:
            found = transaction.db.execute(
                "UPDATE origins SET lease = NULL WHERE name = ? AND lease = ? RETURNING id", (name, lease.id)
            ).fetchone()
            if found is None:
                continue
            transaction.event("origin.released", origin=found[0])
            where = "lease = ? AND phase = ? AND lane IN (SELECT id FROM lanes WHERE origin = ?)"
            for row in change.find(where, lease.id, CLAIMED, found[0]):
                change.let_go(row, row.due_at)
    change.save()
    return [None] * len(calls)


def hold(transaction: Transaction, calls: list[tuple[Lease, str, int, int, int, str]]) -> Results[None]:
    """Write down what each owner learned: pause, block and gap."""
    results: Results[None] = []
    for lease, name, pause, block, gap, why in calls:
        paused_until, blocked_until = (transaction.now + wait if wait else 0 for wait in (pause, block))
        found = transaction.db.execute(
            "UPDATE origins SET paused_until = ?1, blocked_until = ?2, gap = ?3 WHERE name = ?4 AND "
            "coalesce(lease = ?5, EXISTS (SELECT 1 FROM leases WHERE id = ?5)) RETURNING id",
            (paused_until, blocked_until, gap, name, lease.id),
        ).fetchone()
        if found is None:
            results.append(not_owned(name, lease))
            continue
        note = "blocked" if block else "paused" if pause else "free"
        transaction.event("origin.held", origin=found[0], note=f"{note}: {why}" if why else note)
        results.append(None)
    return results


def change_lane(transaction: Transaction, calls: list[LaneChange]) -> Results[Lane | None]:
    """Pause, resume, limit or order each call's lane."""
    results: Results[Lane | None] = []
    for key, paused, limits, ordered, origin in calls:
        transaction.write_counts()
        if origin is not None:
            transaction.new_lane(key, origin, ordered=bool(ordered))
        before = read_lane(transaction.db, key)
        if before is not None and ordered and not before.ordered and (error := overfull(before)):
            results.append(error)
            continue
        if before is not None:
            transaction.db.execute(_CHANGE_LANE, (paused, limits, transaction.now, key))
            found = transaction.lane(key)
            assert found is not None
            number = found.id
            if paused is not None and paused != before.paused:
                transaction.event("lane.paused" if paused else "lane.resumed", lane=number)
            if limits is not None:
                transaction.event("lane.limits", lane=number)
            if ordered is not None and ordered != before.ordered:
                _order(transaction, key, number, ordered=ordered)
        results.append(before and read_lane(transaction.db, key))
    return results


def _order(transaction: Transaction, key: str, number: int, *, ordered: bool) -> None:
    """Let a lane be ordered from now on, or no longer."""
    db = transaction.db
    db.execute("UPDATE lanes SET ordered = ?, stuck = 0 WHERE id = ?", (ordered, number))
    transaction.forget_lane(key)
    transaction.event("lane.ordered" if ordered else "lane.unordered", lane=number)
    if ordered:
        db.execute(
            "UPDATE deliveries SET in_line = 1 WHERE lane = ? AND state IN ('pending', 'retrying') AND in_line = 0",
            (number,),
        )
        # Several may have been claimed, in another order.
        change = Change(transaction)
        for row in change.find("lease IS NOT NULL AND phase = ? AND +lane = ?", CLAIMED, number):
            change.let_go(row, row.due_at)
        change.save()
        transaction.write_counts()


def disable(transaction: Transaction, calls: list[tuple[int, int]]) -> Results[list[Lane]]:
    """Pause for each call (after, most) lanes that did nothing but fail."""
    db = transaction.db
    results: Results[list[Lane]] = []
    for after, most in calls:
        failing = db.execute(_FAILING, (transaction.now - after, after, most)).fetchall()
        for number, _, since in failing:
            reason = why_paused(since)
            db.execute("UPDATE lanes SET paused = 1, pause_reason = ? WHERE id = ?", (reason, number))
            transaction.event("lane.paused", lane=number, note=reason)
        transaction.write_counts()
        found = [read_lane(db, key) for _, key, _ in failing]
        results.append([lane for lane in found if lane is not None])
    return results


def unblock(transaction: Transaction, calls: list[str]) -> Results[Lane | None]:
    """End pause and block of the origin of each lane."""
    transaction.write_counts()
    results: Results[Lane | None] = []
    for key in calls:
        before = read_lane(transaction.db, key)
        if before is not None:
            (origin,) = transaction.db.execute(
                "UPDATE origins SET paused_until = 0, blocked_until = 0 WHERE name = ? RETURNING id",
                (before.origin.name,),
            ).fetchone()
            transaction.event("origin.unblocked", origin=origin)
        results.append(before and read_lane(transaction.db, key))
    return results
