"""Store: whole lives of deliveries per second, each with its attempt's row on the disk before the send, without HTTP.

The measure is what the disk itself can do: `fdatasync` after each of many small writes to a file beside the store, in the
same run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.filling import HOUR, fill
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.places import place
from benchmarks.row import Row
from comity.service.stores import open_store
from comity.store.base import Store
from comity.store.records import Claim, Ended, Lease, NewDelivery
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore

SUBMITTERS = 256
SLOTS = 256
LANES = 16
DONE = Ended(then="completed", status=200, sent_ago=2, answered_ago=1)
BODY = b'{"event":"invoice.paid","id":"0123456789abcdef0123456789abcdef"}'


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    many, seconds, least, most = (2_000, 0.1, 2, 3) if quick else (30_000, 1.0, 5, 9)
    with TemporaryDirectory() as folder, runner() as loop:
        store = loop.run(opened(Path(folder) / "lives.sqlite"))
        lease = loop.run(store.register("benchmark", HOUR))

        def lives() -> float:
            return float(loop.run(lives_of(store, lease, many)))

        competitors = {"lives": lives, "sync": lambda: _syncs(Path(folder) / "sync", seconds)}
        rounds = interleave(competitors, [("lives", "sync")], least=least, most=most)
        loop.run(store.close())
        ratio = rounds.ratio("lives", "sync")
        what = f"store: SQLite, lives of deliveries of {SUBMITTERS} submitters, to fdatasync"
        yield Row.paired(what, rounds.figure("lives"), rounds.figure("sync"), ratio, "/s", least=3)
        yield from _large(loop, quick=quick)


def _large(loop: asyncio.Runner, *, quick: bool) -> Iterator[Row]:
    """Yield what a life takes in a store that holds much, to one that holds little."""
    few, many, lives, least, most = (1_000, 20_000, 1_000, 2, 3) if quick else (10_000, 3_000_000, 20_000, 5, 9)
    with ExitStack() as places:
        competitors = {}
        for held in (few, many):
            found = places.enter_context(place("SQLite"))
            assert not isinstance(found, str)
            loop.run(fill(found, _new(0), held, "completed"))
            store = loop.run(open_store(found.url))
            places.callback(_close, loop, store)
            lease = loop.run(store.register("benchmark", HOUR))
            competitors[str(held)] = partial(_life, loop, store, lease, lives)
        rounds = interleave(competitors, [(str(many), str(few))], least=least, most=most)
        large, small = rounds.figure(str(many)), rounds.figure(str(few))
        what = f"store: SQLite, life, with {many:,} rows to {few:,}"
        yield Row.paired(what, large, small, rounds.ratio(str(many), str(few)), "us", most=1.2)


def _life(loop: asyncio.Runner, store: Store, lease: Lease, lives: int) -> float:
    """Return how long a life takes, us."""
    return 1e6 / float(loop.run(lives_of(store, lease, lives)))


def _close(loop: asyncio.Runner, store: Store) -> None:
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
