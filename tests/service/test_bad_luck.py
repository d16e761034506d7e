"""Bad luck of a service: a disk that is full, a clock that was set back, an upgrade that is cut short."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter

import pytest

from comity.errors import StatusError
from comity.policy.retry import Retry
from comity.policy.units import NS
from comity.service.client import AsyncServiceClient
from comity.service.limits import Limits
from comity.service.service import Service
from comity.service.stores import migrate_store
from comity.service.worker import WorkerOptions
from comity.store.clock import steady
from comity.store.records import ENDS
from comity.store.sqlite.store import SqliteStore
from comity.testing.upstream import Upstream
from tests.service.books import Books, opened
from tests.service.fleet import fleet
from tests.service.running import LOOPBACK, Bench

OPTIONS = ("--allow", "127.0.0.0/8", "--slots", "32", "--concurrency", "16")
HOUR = 3600 * NS


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def upstream():
    with Upstream() as server:
        yield server


async def test_a_full_disk_refuses_what_is_new_and_what_was_acknowledged_is_delivered(tmp_path, path, upstream):
    """NP-029: under a worker that cannot write either; the end of what it sent is written when there is room."""
    store = f"sqlite:///{path}"
    await migrate_store(store)
    told = []
    with fleet(tmp_path, store, *OPTIONS) as ships:
        small = ships.serve(largest=600_000)
        async with AsyncServiceClient(ships.url, retry=Retry(attempts=100), concurrency=8) as api:
            told.append((await api.submit(f"{upstream.url}/ok/first"))["id"])
        async with AsyncServiceClient(ships.url, retry=Retry(attempts=1), concurrency=8) as api:
            refused = None
            while refused is None:
                try:
                    made = await api.submit(f"{upstream.url}/delay/5?n={len(told)}", body="x" * 10_000)
                except StatusError as error:
                    refused = error
                else:
                    told.append(made["id"])
            assert refused.status_code == 503
            small.kill()
            large = ships.serve()
        async with AsyncServiceClient(ships.url, retry=Retry(attempts=100)) as api:
            for number in told:
                while (await api.get(number, wait=60))["status"] not in ENDS:
                    pass
        await large.stop()
    async with opened(store) as looked_at:
        await Books().close(looked_at, Counter(upstream.url + each.target for each in upstream.log))


async def test_a_clock_that_was_set_back_holds_nothing_up_that_is_new(path, upstream):
    """What was sent in what is the future now counts as sent now, and no more."""
    await migrate_store(f"sqlite:///{path}")
    for ahead in (HOUR, 0):
        clock = steady()
        store = SqliteStore(path, clock=lambda clock=clock, ahead=ahead: clock() + ahead)
        work = Bench(store, upstream, path)
        first = await work.submit("/ok/1", delay=1)
        await store.change_lane(upstream.url, limits=Limits(rate="2/1s").stored())
        async with Service(store, guard=LOOPBACK, worker=WorkerOptions()):
            numbers = [first, *[await work.submit(f"/ok/{n}") for n in (2, 3)]]
            ends = [await work.end(number) for number in numbers]
        assert {each.state for each in ends} == {"completed"}
        await store.close()
    assert upstream.peak("", 1.0) <= 2


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request, path):
    """The URL of a store that is not made yet."""
    return f"sqlite:///{path}" if request.param == "sqlite" else request.getfixturevalue("database")


async def test_an_upgrade_that_is_killed_is_done_by_the_next(tmp_path, empty):
    """NP-034"""
    chance, store = random.Random(3), empty
    with fleet(tmp_path, store) as ships:
        for _ in range(8):
            upgrade = ships.run("migrate")
            await asyncio.sleep(chance.uniform(0, 0.3))
            assert upgrade.end(signal.SIGKILL) in {0, -signal.SIGKILL}, ships.told
    await migrate_store(store)
    assert await migrate_store(store) == []
    async with opened(store) as looked_at:
        assert (await looked_at.counts()).pending == 0
