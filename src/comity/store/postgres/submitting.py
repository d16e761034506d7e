"""Submitting: new deliveries, each with its payload and key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from comity.errors import OptionsError
from comity.store.postgres.transaction import Transaction, columns
from comity.store.records import NewDelivery, Submitted
from comity.store.room import ALIVE, Call, Room
from comity.store.row import READY, WAITING
from comity.store.sums import LaneRef, Results

_INSERT = """
WITH v AS (
    SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::text[], $6::text[], $7::smallint[], $8::bigint[],
        $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::integer[], $14::bytea[], $15::bytea[], $16::bytea[])
    v (id, lane, phase, method, url, priority, rank, mode, key, due_at, deadline, max_attempts, options, headers, body)
), payload AS (
    INSERT INTO payloads (id, options, headers, body) SELECT id, options, headers, body FROM v
)
INSERT INTO deliveries (id, lane, state, phase, method, url, priority, rank, mode, idempotency_key, created_at, enqueued_at,
    due_at, deadline, idle_since, max_attempts)
SELECT v.id, v.lane, 'pending', v.phase, v.method, v.url, v.priority, v.rank, v.mode, v.key, $1, $1, v.due_at, v.deadline, $1,
    v.max_attempts FROM v
"""
# In order of the keys, as others do; one that another transaction is just writing is waited for.
_KEY = """
INSERT INTO keys SELECT v.*, $4 FROM unnest($1::text[], $2::bytea[], $3::uuid[]) v (key, fingerprint, id) ORDER BY v.key
ON CONFLICT DO NOTHING RETURNING key
"""
_KEYED = """
SELECT k.key, k.fingerprint, k.id::text, k.created_at, d.state FROM keys k LEFT JOIN deliveries d ON d.id = k.id
WHERE k.key = ANY($1::text[])
"""


async def submit(transaction: Transaction, calls: list[Call]) -> Results[list[Submitted]]:
    """Store what each call brings; a call that cannot be stored as a whole is refused as a whole."""
    lanes = await _lanes(transaction, [new for new, _ in calls])
    errors = [_astray(lanes, new) for new, _ in calls]
    before = await _before(
        transaction, [each for (new, _), error in zip(calls, errors, strict=True) if not error for each in new]
    )
    alive = None
    if any(most is not None for _, most in calls):
        alive = await transaction.db.fetchval(ALIVE) + transaction.live()
    made = _Made(transaction, lanes, before, Room(None if alive is None else int(alive), transaction.now))
    results: Results[list[Submitted]] = [
        error or [made.one(each, most) for each in new] for (new, most), error in zip(calls, errors, strict=True)
    ]
    await made.save()
    return results


async def _lanes(transaction: Transaction, calls: list[Sequence[NewDelivery]]) -> dict[str, LaneRef]:
    """Return the lanes of all calls that can be stored, made when there are none."""
    known = await transaction.lanes(_key(each) for call in calls for each in call)
    missing: dict[str, str] = {}
    for call in calls:
        wanted = {_key(each): each.origin for each in call}
        leads_to = {
            key: known[key].origin_name if key in known else missing.get(key, origin) for key, origin in wanted.items()
        }
        if all(leads_to[_key(each)] == each.origin for each in call):
            missing.update((key, origin) for key, origin in wanted.items() if key not in known)
    if not missing:
        return known
    await transaction.make_lanes(missing)
    return await transaction.lanes([*known, *missing])


def _key(new: NewDelivery) -> str:
    return new.lane or new.origin


def _astray(lanes: dict[str, LaneRef], new: Sequence[NewDelivery]) -> OptionsError | None:
    """Return what is wrong when a lane is named that leads to another origin."""
    for each in new:
        key = _key(each)
        leads_to = lanes[key].origin_name if key in lanes else next(other.origin for other in new if _key(other) == key)
        if leads_to != each.origin:
            return OptionsError("lane", key, hint=f"it is a lane to {leads_to}, not to {each.origin}")
    return None


async def _before(transaction: Transaction, new: Sequence[NewDelivery]) -> dict[str, Any]:
    """Take the keys; return what those stand for that were used before: fingerprint, id, time and state, or the id to use."""
    first: dict[str, tuple[bytes, str]] = {}
    for each in new:
        if each.idempotency_key is not None and each.idempotency_key not in first:
            first[each.idempotency_key] = (each.fingerprint, transaction.ids.new(transaction.now))
    if not first:
        return {}
    fingerprints, numbers = columns(list(first.values()))
    taken = {key for (key,) in await transaction.db.fetch(_KEY, list(first), fingerprints, numbers, transaction.now)}
    found: dict[str, Any] = {key: first[key][1] for key in taken}
    if used := first.keys() - taken:
        for key, *before in await transaction.db.fetch(_KEYED, list(used)):
            found[key] = before
    return found


class _Made:
    """The deliveries of one commit.

    Args:
        transaction: where.
        lanes: by name.
        keys: what `_before` found; a key that is taken now stands for its delivery from then on.
        room: for how many there is.
    """

    def __init__(self, transaction: Transaction, lanes: dict[str, LaneRef], keys: dict[str, Any], room: Room) -> None:
        self._transaction, self._lanes, self._keys, self._room = transaction, lanes, keys, room
        self._rows: list[tuple[object, ...]] = []
        self._unused: list[str] = []

    def one(self, new: NewDelivery, most: int | None) -> Submitted:
        """Make a delivery, unless its key stands for one."""
        transaction, key = self._transaction, new.idempotency_key
        now = transaction.now
        number = None if key is None else self._keys[key]
        if isinstance(number, list):
            fingerprint, earlier, created_at, state = number
            outcome: Literal["replayed", "conflict"] = "replayed" if new.is_as(fingerprint) else "conflict"
            return Submitted(id=earlier, outcome=outcome, state=state, created_at=created_at)
        if (full := self._room.take(most)) is not None:
            if key is not None:
                self._unused.append(key)
            return full
        if number is None:
            number = transaction.ids.new(now)
        else:
            assert key is not None
            self._keys[key] = [new.fingerprint, number, now, "pending"]
        lane = self._lanes[_key(new)].id
        due_at = max(now + new.delay, new.run_at or 0)
        phase = READY if due_at <= now else WAITING
        self._rows.append(
            (
                number, lane, phase, new.method, new.url, new.priority, now + new.priority * transaction.ageing, new.mode, key,
                due_at, new.deadline, new.max_attempts, new.options, new.headers, new.body,
            )
        )  # fmt: skip
        transaction.count(lane, "pending", 1)
        if phase == READY:
            transaction.count(lane, "ready", 1)
        transaction.event("pending", lane=lane, delivery=number)
        return Submitted(id=number, created_at=now)

    async def save(self) -> None:
        """Write them."""
        if unused := [key for key in self._unused if isinstance(self._keys[key], str)]:
            await self._transaction.db.execute("DELETE FROM keys WHERE key = ANY($1::text[])", unused)
        if self._rows:
            await self._transaction.db.execute(_INSERT, self._transaction.now, *columns(self._rows))
