"""Submitting: new deliveries, each with its payload and key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncpg import SerializationError

from comity.store.known import LaneRef, Way
from comity.store.lane_rules import astray
from comity.store.postgres.transaction import Transaction, columns
from comity.store.records import NewDelivery, Submitted
from comity.store.schedules import NewSchedule, run_of
from comity.store.submission import ALIVE, Call, Room, born, used_before
from comity.store.sums import Results

_INSERT = """
WITH v AS (
    SELECT * FROM unnest($2::new_delivery[])
), payload AS (
    INSERT INTO payloads (id, options, headers, body) SELECT id, options, headers, body FROM v
)
INSERT INTO deliveries (id, lane, state, phase, method, url, priority, rank, mode, idempotency_key, created_at, enqueued_at,
    due_at, deadline, idle_since, max_attempts, schedule, in_line)
SELECT v.id, v.lane, 'pending', v.phase, v.method, v.url, v.priority, v.rank, v.mode, v.key, $1, $1, v.due_at, v.deadline, $1,
    v.max_attempts, v.schedule, v.in_line FROM v
"""
# In order of the keys, as others do; one that another transaction is just writing is waited for.
_KEY = """
INSERT INTO keys (key, fingerprint, id, created_at, schedule) SELECT v.key, v.fingerprint, v.id, $4, v.schedule
FROM unnest($1::text[], $2::bytea[], $3::uuid[], $5::uuid[]) v (key, fingerprint, id, schedule) ORDER BY v.key
ON CONFLICT DO NOTHING RETURNING key
"""
_KEYED = """
SELECT k.key, k.fingerprint, k.id::text, k.created_at, d.state, k.schedule::text FROM keys k LEFT JOIN deliveries d ON d.id = k.id
WHERE k.key = ANY($1::text[])
"""
_SCHEDULE = """
INSERT INTO schedules (id, template, cron, zone, overlap, within, next_at, due_at, latest, created_at)
SELECT v.id, v.template, v.cron, v.zone, v.overlap, v.within, v.at, v.at, v.latest, $1 FROM unnest($2::uuid[], $3::bytea[],
    $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::uuid[])
    v (id, template, cron, zone, overlap, within, at, latest)
"""


async def submit(transaction: Transaction, calls: list[Call]) -> Results[list[Submitted]]:
    """Store what each call brings; a call that cannot be stored as a whole is refused as a whole."""
    deliveries = [[each.run if isinstance(each, NewSchedule) else each for each in new] for new, _ in calls]
    lanes = await planned(transaction, deliveries)
    errors = [astray(each, lanes) for each in deliveries]
    # Ids rise in the order in which deliveries came, which is how an ordered lane sends them.
    numbered = [[(each, transaction.ids.new(transaction.now)) for each in new] for new, _ in calls]
    sound = [each for new, error in zip(numbered, errors, strict=True) if not error for each in new]
    before = await _before(transaction, sound)
    alive = None
    if any(most is not None for _, most in calls):
        alive = await transaction.db.fetchval(ALIVE) + transaction.live()
    made = Made(transaction, lanes)
    keyed = _Keyed(transaction, before, Room(None if alive is None else int(alive), transaction.now))
    results: Results[list[Submitted]] = [
        error or [keyed.one(*each, most, made) for each in new]
        for new, (_, most), error in zip(numbered, calls, errors, strict=True)
    ]
    await keyed.save()
    await made.save()
    return results


async def planned(transaction: Transaction, calls: Sequence[Sequence[NewDelivery]]) -> dict[str, Way]:
    """Return the lanes of all calls that can be stored, as they are, or else as they would be made."""
    lanes = _ways(await transaction.lanes(each.lane_key for call in calls for each in call))
    for call in calls:
        if not astray(call, lanes):
            for each in call:
                lanes.setdefault(each.lane_key, Way(each.origin, each.ordered))
    return lanes


class Made:
    """The deliveries and schedules of one commit, and the lanes that there were none of.

    Args:
        transaction: where.
        lanes: as they were planned.
    """

    def __init__(self, transaction: Transaction, lanes: dict[str, Way]) -> None:
        self._transaction, self._planned = transaction, lanes
        self._deliveries: list[tuple[NewDelivery, str, str | None]] = []
        self._schedules: list[tuple[NewSchedule, str, str]] = []

    def delivery(self, new: NewDelivery, number: str | None = None, schedule: str | None = None) -> str:
        """Make a delivery; return its id."""
        number = number or self._transaction.ids.new(self._transaction.now)
        self._deliveries.append((new, number, schedule))
        return number

    def schedule(self, new: NewSchedule, schedule: str, number: str | None) -> str:
        """Make a schedule and its first run; return the id of that."""
        number = self.delivery(run_of(schedule, new.run, new.first_at, new.within), number, schedule)
        self._schedules.append((new, schedule, number))
        return number

    async def save(self) -> None:
        """Write them.

        Raises:
            SerializationError: another transaction made a lane otherwise meanwhile; the same again finds it.
        """
        if not self._deliveries:
            return
        transaction, lanes = self._transaction, await self._lanes()
        rows = [self._row(lanes[made[0].lane_key], *made) for made in self._deliveries]
        await transaction.db.execute(_INSERT, transaction.now, rows)
        if not self._schedules:
            return
        for new, schedule, number in self._schedules:
            lane = lanes[new.run.lane_key].id
            transaction.event("schedule.created", lane=lane, delivery=number, note=schedule)
        schedules = [
            (schedule, new.template, new.cron, new.zone, new.overlap, new.within, new.first_at, number)
            for new, schedule, number in self._schedules
        ]
        await transaction.db.execute(_SCHEDULE, transaction.now, *columns(schedules))

    async def _lanes(self) -> dict[str, LaneRef]:
        """Return their lanes, made where there are none: what is refused, or was submitted before, needs none."""
        wanted = {new.lane_key: self._planned[new.lane_key] for new, _, _ in self._deliveries}
        lanes = await self._transaction.lanes(wanted)
        if missing := {key: way for key, way in wanted.items() if key not in lanes}:
            await self._transaction.make_lanes(missing)
            lanes = await self._transaction.lanes(wanted)
        if _ways(lanes) != wanted:
            raise SerializationError("another transaction made a lane of this name")
        return lanes

    def _row(self, lane: LaneRef, new: NewDelivery, number: str, schedule: str | None) -> tuple[object, ...]:
        phase, due_at, rank = born(self._transaction, number, new, lane.id)
        return (
            number, lane.id, phase, new.method, new.url, new.priority, rank, new.mode, new.idempotency_key, due_at,
            new.deadline, new.max_attempts, new.options, new.headers, new.body, schedule, lane.ordered,
        )  # fmt: skip


def _ways(lanes: dict[str, LaneRef]) -> dict[str, Way]:
    return {key: lane.way for key, lane in lanes.items()}


async def _before(transaction: Transaction, new: Sequence[tuple[NewDelivery | NewSchedule, str]]) -> dict[str, Any]:
    """Take the keys; return what each stands for.

    Of one that was used before a list: fingerprint, id, time, state and schedule. Of one that is taken now a tuple: the ids to
    use, of the delivery, and of the schedule or None.
    """
    ids, now = transaction.ids, transaction.now
    first: dict[str, tuple[bytes, str, str | None]] = {}
    for each, number in new:
        if each.idempotency_key is not None and each.idempotency_key not in first:
            schedule = ids.new(now) if isinstance(each, NewSchedule) else None
            first[each.idempotency_key] = (each.fingerprint, number, schedule)
    found: dict[str, Any] = {}
    while left := {
        key: each for key, each in first.items() if key not in found
    }:  # again for what was pruned in between
        fingerprints, numbers, schedules = columns(list(left.values()))
        rows = await transaction.db.fetch(_KEY, list(left), fingerprints, numbers, now, schedules)
        found |= {key: left[key][1:] for (key,) in rows}
        if used := left.keys() - found.keys():
            for key, *before in await transaction.db.fetch(_KEYED, list(used)):
                found[key] = before
    return found


class _Keyed:
    """What is submitted, each once for its key.

    Args:
        transaction: where.
        keys: what `_before` found; a key that is taken now stands for its delivery from then on.
        room: for how many there is.
    """

    def __init__(self, transaction: Transaction, keys: dict[str, Any], room: Room) -> None:
        self._transaction, self._keys, self._room = transaction, keys, room
        self._unused: list[str] = []

    def one(self, new: NewDelivery | NewSchedule, number: str, most: int | None, made: Made) -> Submitted:
        """Have it made, with this id or that of its key, unless that stands for something."""
        key, now = new.idempotency_key, self._transaction.now
        before = (number, None) if key is None else self._keys[key]
        if isinstance(before, list):
            return used_before(new, before)
        if (full := self._room.take(most)) is not None:
            if key is not None:
                self._unused.append(key)
            return full
        number, schedule = before
        if isinstance(new, NewSchedule):
            schedule = schedule or self._transaction.ids.new(now)
            number = made.schedule(new, schedule, number)
        else:
            number = made.delivery(new, number)
        if key is not None:
            self._keys[key] = [new.fingerprint, number, now, "pending", schedule]
        return Submitted(id=number, created_at=now, schedule=schedule)

    async def save(self) -> None:
        """Let those keys go that were taken and stand for nothing."""
        if unused := [key for key in self._unused if isinstance(self._keys[key], tuple)]:
            await self._transaction.db.execute("DELETE FROM keys WHERE key = ANY($1::text[])", unused)
