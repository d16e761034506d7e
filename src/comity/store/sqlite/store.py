"""SqliteStore: a Store in one file.

A writer's thread does what changes anything, a few others read; the event loop does neither. Every commit is on the disk
before anybody is told (`synchronous=FULL`). The connection that writes is also the only one that checkpoints.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar

from comity.errors import OptionsError, StoreError
from comity.store.base import AGEING, LONGEST_AGEING
from comity.store.clock import steady
from comity.store.lane_rules import LaneChange
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
from comity.store.sqlite import claims, leases, operating, origins, pruning, readers, reading, scheduling, submitting
from comity.store.sqlite.claims import give_back
from comity.store.sqlite.faults import translated
from comity.store.sqlite.files import Files
from comity.store.sqlite.lock import Lock
from comity.store.sqlite.migrations import check_schema
from comity.store.sqlite.origins import disown
from comity.store.sqlite.writer import Writer
from comity.store.transitions import Step
from comity.store.work import Work

READERS = 2
_CACHE_KIB = 64 * 1024
_CHECKPOINT_PAGES = 4_000

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore:
    """A store in a SQLite file. What its methods promise stands at `comity.store.base.Store`.

    Leases that are found in the file have run out: it serves one process at a time, and theirs is gone.

    Args:
        path: the file; `migrate` makes it and brings it up to date.
        clock: ns since the epoch, never set; by default the wall clock's time at the opening, steady from then on.
        ageing: after so long a delivery counts one priority more urgent, ns; at most a day.

    Raises:
        OptionsError: `ageing` is none of that.
        StoreError: another process has the file, its schema is older or newer, it is damaged or cannot be opened.
    """

    def __init__(self, path: Path | str, *, clock: Callable[[], int] | None = None, ageing: int = AGEING) -> None:
        if not 0 <= ageing <= LONGEST_AGEING:
            raise OptionsError("ageing", ageing, f"0 to {LONGEST_AGEING} ns")
        self._path, self._clock = Path(path), clock or steady()
        if not self._path.exists():
            raise StoreError(f"{path}: there is no such store: migrate makes it", reason="schema")
        with contextlib.ExitStack() as opened:
            self._lock = Lock(self._path)
            opened.callback(self._lock.release)
            with translated(self._path):
                self._db = opened.enter_context(contextlib.closing(self._connect()))
                check_schema(self._db, self._path)
                self._db.execute("UPDATE leases SET expires_at = 0")
                self._connections = [opened.enter_context(contextlib.closing(self._reader())) for _ in range(READERS)]
                self._files = Files(self._path)
                self._writer = Writer(self._path, self._files, self._db, self._clock, ageing)
            self._opened = opened.pop_all()
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for connection in self._connections:
            self._idle.put(connection)
        self._readers = ThreadPoolExecutor(READERS, "comity-store-reader")
        self._closed = False

    async def now(self) -> int:
        return self._clock()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        # Readers first: the last connection to go is the one that checkpoints.
        with translated(self._path):
            self._opened.close()

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
        return await self._read(reading.starts, origin, since, self._clock())

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
        return await self._writer.do(pruning.prune, (retention, most))

    async def disable(self, after: int, most: int = 500) -> list[Lane]:
        return await self._writer.do(origins.disable, (after, most))

    async def due_schedules(
        self, most: int = 500, *, after: DueSince | None = None, of: str | None = None
    ) -> DueSchedules:
        return await self._read(scheduling.due, self._clock(), most, after, of)

    async def advance(self, runs: Sequence[NextRun]) -> int:
        return await self._writer.do(scheduling.advance, runs)

    async def change_schedule(self, schedule: str, *, paused: bool) -> Schedule | None:
        return await self._writer.do(scheduling.change, (schedule, paused))

    async def remove_schedule(self, schedule: str) -> bool:
        return await self._writer.do(scheduling.remove, schedule)

    async def schedule(self, schedule: str) -> Schedule | None:
        return await self._read(scheduling.one, schedule)

    async def schedules(self, after: str = "", most: int = 1000) -> list[Schedule]:
        return await self._read(scheduling.several, after, most)

    async def cancel(self, delivery: str) -> Delivery | None:
        return await self._writer.do(operating.cancel, delivery)

    async def hasten(self, delivery: str) -> Delivery | None:
        return await self._writer.do(operating.hasten, delivery)

    async def replay(self, delivery: str) -> Delivery | None:
        return await self._writer.do(operating.replay, delivery)

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
        return await self._read(reading.delivery, delivery)

    async def payload(self, delivery: str) -> Payload | None:
        return await self._read(reading.payload, delivery)

    async def answer(self, delivery: str) -> Answer | None:
        return await self._read(reading.answer, delivery)

    async def attempts(self, delivery: str) -> list[AttemptRow]:
        return await self._read(reading.attempts, delivery)

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
        return self._writer.bell.last

    async def mark(self, reader: str, seen: int) -> None:
        await self._writer.do(readers.mark, (reader, seen))

    async def marked(self, reader: str) -> int:
        return await self._read(readers.marked, reader)

    async def newer(self, after: int) -> int:
        return await self._writer.bell.newer(after)

    async def _read(self, read: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Have one of the readers read; it sees one state of the file."""
        if self._closed:
            raise StoreError(f"{self._path}: the store is closed", reason="closed")

        def work() -> T:
            connection = self._idle.get()
            try:
                self._files.check()
                with translated(self._path), _one_state(connection):
                    return read(connection, *args, **named)
            finally:
                self._idle.put(connection)

        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def _connect(self) -> sqlite3.Connection:
        # Any thread may use it; which one does is said here, not by SQLite.
        db = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=5.0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        return db

    def _reader(self) -> sqlite3.Connection:
        db = self._connect()
        db.execute("PRAGMA query_only=ON")
        db.execute("PRAGMA wal_autocheckpoint=0")
        return db


def _nobody_owns(lease: Lease, taken: list[Origin]) -> Work:
    return Work(disown, (lease, [each.name for each in taken]))


def _nobody_wants(claimed: Claimed) -> Work:
    return Work(give_back, (claimed.claims, 0, None))


@contextlib.contextmanager
def _one_state(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
