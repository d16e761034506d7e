"""Shares: several workers have about as many origins each, and limits hold when an origin changes hands. Both databases."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from comity.client.aiohttp_transport import AiohttpTransport
from comity.engine.clock import MONOTONIC
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.units import NS
from comity.service.errand import Setting
from comity.service.worker import Worker, WorkerOptions
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing.upstream import Upstream
from comity.testing.upstream.journal import peak
from tests.service.running import LIMIT, LOOPBACK, Bench
from tests.store.postgres_stage import PostgresStage

POLICY = Policy(concurrency=2, rate=Rate(20, 1, measured="server"), learn=None)


@asynccontextmanager
async def on_sqlite(tmp_path, _dsn):
    path = tmp_path / "store.sqlite"
    migrate(path)
    store = SqliteStore(path)

    async def same():
        return store

    yield same
    await store.close()


@asynccontextmanager
async def on_postgres(_tmp_path, dsn):
    stage = PostgresStage(dsn)
    try:
        yield stage.open
    finally:
        await stage.remove()


@pytest.fixture(params=[on_sqlite, on_postgres], ids=["sqlite", "postgres"])
async def opens(request, tmp_path, postgres):
    """What opens the store for one more process."""
    async with request.param(tmp_path, postgres) as made:
        yield made


@asynccontextmanager
async def working(store, **options):
    """A worker, which says how often it has to find out whether it has too much."""
    transport = AiohttpTransport(guard=LOOPBACK)
    given = {"policy": POLICY, "balance": NS // 10, "slots": 40} | options
    worker = Worker(Setting(store=store, transport=transport, clock=MONOTONIC), WorkerOptions(**given))
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.drain(0.5)
        await task
        await transport.aclose()


async def until_owned(store, *numbers):
    """Return when there are owners with just so many origins."""
    async with asyncio.timeout(LIMIT):
        while True:
            seen = await store.last_event()
            owners = Counter(each.lease for each in await store.origins() if each.lease is not None)
            if sorted(owners.values()) == sorted(numbers):
                return
            await store.newer(seen)


@pytest.mark.parametrize(("workers", "origins"), [(2, 4), (3, 3)])
async def test_workers_that_come_later_get_their_share_and_no_limit_is_exceeded(opens, workers, origins):
    """DD-04: what is sent by the last owner and by the next is held to one limit, and everything is sent once."""
    store = await opens()
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(Upstream()) for _ in range(origins)]
        work = Bench(store, upstreams[0], None)
        new = [work.delivery(f"{up.url}/delay/30?n={n}") for n in range(50) for up in upstreams]
        made = await store.submit(new)
        await stack.enter_async_context(working(store))
        await until_owned(store, origins)
        for _ in range(1, workers):
            await stack.enter_async_context(working(await opens()))
        await until_owned(store, *[origins // workers] * workers)
        for each in made:
            assert (await work.end(each.id)).state == "completed"
            # A change of hands may come between an attempt's row and its first byte.
            assert [row.sent for row in await store.attempts(each.id) if row.sent != "no"] == ["yes"]
        for up in upstreams:
            assert up.stats().total.count == 50
            assert up.stats().total.max_in_flight <= 2
            assert peak([each.at for each in up.log], NS) <= 20


async def test_origins_that_come_at_once_are_shared_out(opens):
    """Whoever looks first does not keep them all."""
    store = await opens()
    work = Bench(store, Upstream(), None)
    async with working(store), working(await opens()):
        # Nothing listens there, so they stay as long as their retries last.
        nowhere = [work.delivery(f"http://127.0.0.{n}:1/", terms={"backoff_ms": 500}) for n in range(1, 21)]
        await store.submit(nowhere)
        await until_owned(store, 10, 10)


async def test_what_a_worker_without_a_free_slot_cannot_take_others_do(opens):
    """Its share is not kept for it for ever."""
    store = await opens()
    async with Upstream() as upstream:
        work = Bench(store, upstream, None)
        await work.submit("/hang")
        async with working(store, slots=1):
            await upstream.until(lambda up: len(up.log) == 1)
            async with working(await opens()):
                terms = {"max_retries": 1, "backoff_ms": 100}
                nowhere = [work.delivery(f"http://127.0.0.{n}:1/", terms=terms) for n in range(1, 5)]
                for each in await store.submit(nowhere):
                    assert (await work.end(each.id)).state == "failed"
