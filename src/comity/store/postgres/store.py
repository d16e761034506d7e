"""PostgresStore: a Store in a Postgres database, which any number of processes on any machines share.

The time is the database's, so that all of them mean the same by it. Two connections write, a few others read, one more tells
and hears of events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg
from msgspec.structs import replace

from comity.errors import OptionsError, StoreError
from comity.store.base import AGEING, LONGEST_AGEING
from comity.store.bell import Bell
from comity.store.ids import Ids
from comity.store.lane_rules import LaneChange
from comity.store.postgres import (
    claims,
    doctor,
    leases,
    operating,
    origins,
    pruning,
    readers,
    reading,
    scheduling,
    submitting,
)
from comity.store.postgres.claims import give_back
from comity.store.postgres.committer import NOW, Handler, Rules
from comity.store.postgres.connecting import PATIENCE, Place
from comity.store.postgres.faults import BROKEN, DRIVER, LOST, translated
from comity.store.postgres.migrations import check_schema
from comity.store.postgres.news import News
from comity.store.postgres.origins import disown
from comity.store.postgres.writer import Writer
from comity.store.records import (
    Answer,
    AttemptRow,
    Claim,
    Claimed,
    Counts,
    Delivery,
    Ended,
    Event,
    EventKind,
    Lane,
    Lease,
    Minute,
    NewDelivery,
    Origin,
    Page,
    Payload,
    Pruned,
    Query,
    Renewal,
    Replayed,
    Rescued,
    Retention,
    Share,
    Start,
    Submitted,
)
from comity.store.schedules import DueSchedules, DueSince, NewSchedule, NextRun, Schedule
from comity.store.transitions import Step
from comity.store.work import Work

READERS = 4

P = ParamSpec("P")
T = TypeVar("T")

_ORDER: tuple[Handler[Any, Any], ...] = (
    submitting.submit,
    readers.mark,
    claims.begin,
    claims.finish,
    claims.give_back,
    operating.cancel,
    operating.hasten,
    operating.replay,
    operating.replay_all,
    claims.expire,
    scheduling.advance,
    scheduling.change,
    scheduling.remove,
    leases.register,
    leases.renew,
    leases.resign,
    leases.rescue,
    pruning.prune,
    pruning.prune_lanes,
    origins.hold,
    origins.disable,
    origins.disown,
    origins.change_lane,
    origins.unblock,
    origins.own,
    claims.claim,
)
# They take origins, lanes and schedules before deliveries, or what others may be about to use.
_ALONE: frozenset[Handler[Any, Any]] = frozenset(
    {
        leases.resign,
        leases.rescue,
        pruning.prune_lanes,
        origins.disown,
        origins.change_lane,
        origins.unblock,
        scheduling.change,
        scheduling.remove,
    }
)


class PostgresStore:
    """A store in a Postgres database; `open` it. What its methods promise stands at `comity.store.base.Store`.

    It belongs to the event loop on which it was opened. Calls while the database is away raise StoreError at once; the
    next one connects again. A connection that is lost during a commit leaves the caller in doubt, and the error says so.
    """

    def __init__(self, place: Place, pool: Any, writer: Writer, news: News, *, clock: Callable[[int], int]) -> None:
        self._place, self._pool, self._writer, self._news, self._clock = place, pool, writer, news, clock
        self._closed = False

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        schema: str = "comity",
        clock: Callable[[int], int] = int,
        ageing: int = AGEING,
        patience: float = PATIENCE,
    ) -> PostgresStore:
        """Open a store.

        Args:
            dsn: `postgresql://user:password@host:port/database`; what it leaves out comes from PGHOST and the like.
            schema: the schema of the database that holds it; `migrate` makes it and brings it up to date.
            clock: from the database's time to the store's, ns since the epoch; a test moves it on.
            ageing: after so long a delivery counts one priority more urgent, ns; at most a day.
            patience: seconds after which a database that does not answer counts as away.

        Raises:
            OptionsError: `dsn` or `ageing` is none of that, or `patience` is not above 0.
            StoreError: no connection, or its schema is older or newer.
        """
        if not 0 <= ageing <= LONGEST_AGEING:
            raise OptionsError("ageing", ageing, f"0 to {LONGEST_AGEING} ns")
        if not patience > 0:
            raise OptionsError("patience", patience, "more than 0 seconds, for example 10")
        place = Place(dsn, schema, patience)
        with translated():
            # No least size: a pool that has one opens a lost connection again by itself, and writes a traceback into the log
            # for each try that fails. Here whoever needs it does.
            with place.understood():
                pool = await asyncpg.create_pool(**place.arguments, min_size=0, max_size=READERS)
            try:
                with place.understood():
                    db = await pool.acquire()
                async with contextlib.AsyncExitStack() as held:
                    held.push_async_callback(pool.release, db)
                    await check_schema(db, place)
                    bell = Bell(await reading.last_event(db))
            except BaseException:
                pool.terminate()
                raise
        news = News(place, bell)
        rules = Rules(place, order=_ORDER, alone=_ALONE, clock=clock, ageing=ageing, told=news.tell, ids=Ids())
        return cls(place, pool, Writer(rules), news, clock=clock)

    async def now(self) -> int:
        return self._clock(await self._read(_now))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._writer.close()
            await self._news.close()
            with contextlib.suppress(*DRIVER):  # a server that says nothing does not hear a farewell either
                await self._pool.close()
            self._pool.terminate()

    async def health(self) -> doctor.Health:
        """Return what a doctor asks about the database."""
        return await self._read(doctor.health, self._place)

    async def submit(self, new: Sequence[NewDelivery | NewSchedule], most: int | None = None) -> list[Submitted]:
        return await self._writer.do(submitting.submit, (new, most))

    async def register(self, worker: str, lasting: int) -> Lease:
        return await self._writer.do(leases.register, (worker, lasting))

    async def renew(self, lease: Lease) -> Renewal:
        return await self._writer.do(leases.renew, lease)

    async def resign(self, lease: Lease) -> None:
        await self._writer.do(leases.resign, lease)

    async def own(self, lease: Lease, most: int, beyond: int = 0) -> list[Origin]:
        return await self._writer.do(origins.own, (lease, most, beyond), partial(_nobody_owns, lease))

    async def share(self, lease: Lease) -> Share:
        return await self._read(reading.share, lease.id)

    async def disown(self, lease: Lease, origins: Sequence[str]) -> None:
        await self._writer.do(disown, (lease, origins))

    async def starts(self, origin: str, since: int) -> list[Start]:
        return await self._read(reading.starts, origin, since, await self.now())

    async def hold(
        self, lease: Lease, origin: str, *, pause: int = 0, block: int = 0, gap: int = 0, why: str = ""
    ) -> None:
        await self._writer.do(origins.hold, (lease, origin, pause, block, gap, why))

    async def claim(self, lease: Lease, free: int) -> Claimed:
        return await self._writer.do(claims.claim, (lease, free), _nobody_wants)

    async def begin(self, claim: Claim, cost: bytes = b"{}") -> int:
        return await self._writer.do(claims.begin, (claim, cost))

    async def finish(self, claim: Claim, ended: Ended) -> Step:
        return await self._writer.do(claims.finish, (claim, ended))

    async def give_back(self, claims: Sequence[Claim], wait: int = 0, error: str | None = None) -> int:
        return await self._writer.do(give_back, (claims, wait, error))

    async def rescue(self, jitter: int = 1_000_000_000) -> Rescued:
        return await self._writer.do(leases.rescue, jitter)

    async def expire(self, most: int = 500) -> int:
        return await self._writer.do(claims.expire, most)

    async def prune(self, retention: Retention, most: int = 500) -> Pruned:
        pruned = await self._writer.do(pruning.prune, (retention, most))
        if pruned.more:
            return pruned
        rest = await self._writer.do(pruning.prune_lanes, (retention, most))
        took = max(pruned.took, rest.took)
        return replace(rest, deliveries=pruned.deliveries, keys=pruned.keys, events=pruned.events, took=took)

    async def disable(self, after: int, most: int = 500) -> list[Lane]:
        return await self._writer.do(origins.disable, (after, most))

    async def due_schedules(
        self, most: int = 500, *, after: DueSince | None = None, of: str | None = None
    ) -> DueSchedules:
        return await self._read(scheduling.due, await self.now(), most, after, of)

    async def advance(self, runs: Sequence[NextRun]) -> int:
        return await self._writer.do(scheduling.advance, runs)

    async def change_schedule(self, schedule: str, *, paused: bool) -> Schedule | None:
        return await self._writer.do(scheduling.change, (schedule, paused)) if reading.is_id(schedule) else None

    async def remove_schedule(self, schedule: str) -> bool:
        return reading.is_id(schedule) and await self._writer.do(scheduling.remove, schedule)

    async def schedule(self, schedule: str) -> Schedule | None:
        return await self._read(scheduling.one, schedule) if reading.is_id(schedule) else None

    async def schedules(self, after: str = "", most: int = 1000) -> list[Schedule]:
        return await self._read(scheduling.several, after, most)

    async def cancel(self, delivery: str) -> Delivery | None:
        return await self._writer.do(operating.cancel, delivery) if reading.is_id(delivery) else None

    async def hasten(self, delivery: str) -> Delivery | None:
        return await self._writer.do(operating.hasten, delivery) if reading.is_id(delivery) else None

    async def replay(self, delivery: str) -> Delivery | None:
        return await self._writer.do(operating.replay, delivery) if reading.is_id(delivery) else None

    async def replay_all(self, query: Query, cursor: str | None = None, most: int = 500) -> Replayed:
        return await self._writer.do(operating.replay_all, (query, cursor, most))

    async def change_lane(
        self,
        key: str,
        *,
        paused: bool | None = None,
        limits: bytes | None = None,
        ordered: bool | None = None,
        origin: str | None = None,
    ) -> Lane | None:
        return await self._writer.do(origins.change_lane, LaneChange(key, paused, limits, ordered, origin))

    async def unblock(self, key: str) -> Lane | None:
        return await self._writer.do(origins.unblock, key)

    async def get(self, delivery: str) -> Delivery | None:
        return (await self._read(reading.deliveries, [delivery])).get(delivery) if reading.is_id(delivery) else None

    async def payload(self, delivery: str) -> Payload | None:
        return await self._read(reading.payload, delivery) if reading.is_id(delivery) else None

    async def answer(self, delivery: str) -> Answer | None:
        return await self._read(reading.answer, delivery) if reading.is_id(delivery) else None

    async def attempts(self, delivery: str) -> list[AttemptRow]:
        return await self._read(reading.attempts, delivery) if reading.is_id(delivery) else []

    async def deliveries(self, query: Query, cursor: str | None = None, most: int = 100) -> Page:
        return await self._read(reading.page, query, cursor, most)

    async def lane(self, key: str) -> Lane | None:
        return await self._read(reading.lane, key)

    async def lanes(self, after: str = "", most: int = 1000) -> list[Lane]:
        return await self._read(reading.lanes, after, most)

    async def origins(self) -> list[Origin]:
        return await self._read(reading.origins)

    async def counts(self) -> Counts:
        return await self._read(reading.counts)

    async def minutes(self, since: int, until: int, lane: str | None = None) -> list[Minute]:
        return await self._read(reading.minutes, since, until, lane)

    async def events(self, after: int, most: int = 1000, kinds: Sequence[EventKind] | None = None) -> list[Event]:
        return await self._read(reading.events, after, most, kinds)

    async def last_event(self) -> int:
        return await self._read(reading.last_event)

    async def mark(self, reader: str, seen: int) -> None:
        await self._writer.do(readers.mark, (reader, seen))

    async def marked(self, reader: str) -> int:
        return await self._read(readers.marked, reader)

    async def newer(self, after: int) -> int:
        return await self._news.bell.newer(after)

    async def _read(self, read: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
        """Have one of the readers read; once more, on another connection, where the first one is lost."""
        if self._closed:
            raise StoreError("the store is closed", reason="closed")
        with translated():
            async with self._pool.acquire() as db:
                with contextlib.suppress(*LOST):
                    return await _asked(db, read, *args, **named)
            async with self._pool.acquire() as db:
                return await _asked(db, read, *args, **named)


async def _asked(db: Any, read: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **named: P.kwargs) -> T:
    try:
        return await read(db, *args, **named)
    except (*BROKEN, *LOST):
        with contextlib.suppress(asyncpg.InterfaceError):  # the pool has seen it before, and taken the connection back
            db.terminate()
        raise


async def _now(db: Any) -> int:
    now: int = await db.fetchval(NOW)
    return now


def _nobody_owns(lease: Lease, taken: list[Origin]) -> Work:
    return Work(disown, (lease, [each.name for each in taken]))


def _nobody_wants(claimed: Claimed) -> Work:
    return Work(give_back, (claimed.claims, 0, None))
