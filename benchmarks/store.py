"""Store: whole lives of deliveries per second, each with its attempt's row on the disk before the send, without HTTP.

The measure is what the disk itself can do: `fdatasync` after each of many small writes to a file beside the store, in the
same run.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.row import Row
from comity.store.base import Store
from comity.store.records import Claim, Ended, Lease, NewDelivery
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore

SUBMITTERS = 256
SLOTS = 256
LANES = 16
HOUR = 3_600_000_000_000
DONE = Ended(then="completed", status=200, sent_ago=2, answered_ago=1)
BODY = b'{"event":"invoice.paid","id":"0123456789abcdef0123456789abcdef"}'


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    many, seconds, least, most = (2_000, 0.1, 2, 3) if quick else (30_000, 1.0, 5, 9)
    with TemporaryDirectory() as folder, runner() as loop:
        place = Path(folder)
        store = loop.run(opened(place / "lives.sqlite"))
        lease = loop.run(store.register("benchmark", HOUR))

        def lives() -> float:
            return float(loop.run(lives_of(store, lease, many)))

        competitors = {"lives": lives, "sync": lambda: _syncs(place / "sync", seconds)}
        rounds = interleave(competitors, [("lives", "sync")], least=least, most=most)
        loop.run(store.close())
        ratio = rounds.ratio("lives", "sync")
        what = f"store: SQLite, lives of deliveries of {SUBMITTERS} submitters, to fdatasync"
        yield Row.paired(what, rounds.figure("lives"), rounds.figure("sync"), ratio, "/s", least=3)
        yield from _large(loop, place, quick=quick)


def _large(loop: asyncio.Runner, place: Path, *, quick: bool) -> Iterator[Row]:
    """Yield what a store that holds much takes, to one that holds little."""
    few, many, lives, least, most = (1_000, 20_000, 1_000, 2, 3) if quick else (10_000, 3_000_000, 20_000, 5, 9)
    queues = (1_000, 10_000) if quick else (10_000, 1_000_000)
    stores = {}
    for name, done, queued in (("small", few, queues[0]), ("large", many, queues[1])):
        loop.run(_filled(place / f"{name}.sqlite", done, "completed"))
        loop.run(_filled(place / f"{name}-queue.sqlite", queued, "pending"))
        paths = (place / f"{name}.sqlite", place / f"{name}-queue.sqlite")
        stores[name] = [SqliteStore(path) for path in paths]
    leases = {name: [loop.run(_owning(store)) for store in pair] for name, pair in stores.items()}

    def life(name: str) -> float:
        return 1e6 / float(loop.run(lives_of(stores[name][0], leases[name][0], lives)))

    def claim(name: str) -> float:
        return float(loop.run(_claim(stores[name][1], leases[name][1])))

    life_row = f"store: SQLite, life, with {many:,} rows to {few:,}"
    claims_of = f"store: SQLite, claim of 64, with {queues[1]:,} queued to {queues[0]:,}"
    for what, sample in ((life_row, life), (claims_of, claim)):
        competitors = {name: partial(sample, name) for name in stores}
        rounds = interleave(competitors, [("large", "small")], least=least, most=most)
        large, small = rounds.figure("large"), rounds.figure("small")
        yield Row.paired(what, large, small, rounds.ratio("large", "small"), "us", most=1.2)
    for pair in stores.values():
        for store in pair:
            loop.run(store.close())


async def opened(path: Path) -> SqliteStore:
    """Make a store."""
    migrate(path)
    return SqliteStore(path)


async def lives_of(store: Store, lease: Lease, many: int) -> float:
    """Take so many deliveries from submission to completion; return how many a second."""
    left, free, began = many, SLOTS, perf_counter()
    awake = asyncio.Event()

    async def submit() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await store.submit([_new(left)])
            awake.set()

    async def deliver(claim: Claim) -> None:
        nonlocal free
        await store.begin(claim)
        await store.finish(claim, DONE)
        free += 1
        awake.set()

    async def work() -> None:
        nonlocal free
        done: list[asyncio.Task[None]] = []
        while len(done) < many:
            await awake.wait()
            awake.clear()
            await store.own(lease, LANES)
            claimed = await store.claim(lease, free)
            free -= len(claimed.claims)
            done.extend(asyncio.create_task(deliver(claim)) for claim in claimed.claims)
        await asyncio.gather(*done)

    await asyncio.gather(work(), *(submit() for _ in range(SUBMITTERS)))
    return many / (perf_counter() - began)


async def _claim(store: SqliteStore, lease: Lease) -> float:
    """Return how long a claim takes, us."""
    took = 0.0
    for _ in range(20):
        began = perf_counter()
        claimed = await store.claim(lease, 4 * 64)
        took += perf_counter() - began
        await store.give_back(claimed.claims)
    return took / 20 * 1e6


async def _owning(store: SqliteStore) -> Lease:
    lease = await store.register("benchmark", HOUR)
    await store.own(lease, LANES)
    return lease


async def _filled(path: Path, rows: int, state: str) -> None:
    """Make a store that holds so many deliveries: one is submitted, or delivered too, and then multiplied."""
    store = await opened(path)
    lease = await store.register("benchmark", 1)
    await store.submit([_new(0)])
    if state == "completed":
        await store.own(lease, 1)
        (claim,) = (await store.claim(lease, 1)).claims
        await store.begin(claim)
        await store.finish(claim, DONE)
    await store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        for table in ("deliveries", "payloads", "attempts"):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            number = "printf('00000000-0000-7000-8000-%012x', value)"
            changed = [{"n": "value", "id": number}.get(column, column) for column in columns]
            db.execute(
                f"WITH RECURSIVE numbers (value) AS (SELECT 2 UNION ALL SELECT value + 1 FROM numbers WHERE value < ?) "
                f"INSERT INTO {table} SELECT {', '.join(changed)} FROM numbers, {table} WHERE n = 1",
                (rows,),
            )
        db.execute(f"UPDATE lanes SET {state} = {state} + ?1, ready = iif(ready, ready + ?1, 0)", (rows - 1,))
        db.execute("UPDATE origins SET live = iif(live, ?, 0)", (rows,))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _new(number: int) -> NewDelivery:
    origin = f"https://host{number % LANES}.example:443"
    return NewDelivery(origin=origin, method="POST", url=f"{origin}/hook", body=BODY)


def _syncs(path: Path, seconds: float) -> float:
    """Return how often a second 4 KiB are written and put on the disk."""
    page, count = bytes(4096), 0
    with path.open("wb", buffering=0) as file:
        file.write(bytes(4096 * 256))
        began = perf_counter()
        while perf_counter() - began < seconds:
            os.pwrite(file.fileno(), page, count % 256 * 4096)
            os.fdatasync(file.fileno())
            count += 1
        return count / (perf_counter() - began)
