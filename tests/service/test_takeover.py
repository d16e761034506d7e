"""Takeover: what a worker in a process of its own held is another's when it is killed, stands still or is cut off."""

from __future__ import annotations

import asyncio
from collections import Counter

import asyncpg
import pytest

from comity.service.limits import Limits
from comity.service.stores import migrate_store
from comity.service.terms import Terms
from comity.store.records import ENDS, NewDelivery
from comity.testing.upstream import Upstream
from tests.service.books import Books, opened
from tests.service.fleet import fleet

OPTIONS = ("--allow", "127.0.0.0/8", "--lease", "2s", "--concurrency", "20")
TERMS = Terms(max_retries=50, backoff_ms=100)


@pytest.fixture
async def store(database):
    await migrate_store(database)
    async with opened(database) as found:
        yield found


@pytest.fixture
def upstream():
    with Upstream() as server:
        yield server


@pytest.fixture
def ships(tmp_path, database):
    with fleet(tmp_path, database, *OPTIONS) as found:
        yield found


def delivery(upstream, path):
    return NewDelivery(
        origin=upstream.url, method="POST", url=upstream.url + path, options=TERMS.stored(), max_attempts=51
    )


async def owners(store):
    """Return the pids of those who owned the only origin, in order."""
    return [int(each.note.rpartition(":")[2]) for each in await store.events(0) if each.kind == "origin.owned"]


async def at_rest(store, many):
    """Wait until so many have come to their ends."""
    counts = None
    try:
        async with asyncio.timeout(60):
            while True:
                seen, counts = await store.last_event(), await store.counts()
                if sum(getattr(counts, state) for state in ENDS) == many:
                    return
                await store.newer(seen)
    except TimeoutError:
        pytest.fail(f"{many} were to end: {counts}, {await store.origins()}")


def sent(upstream):
    return Counter(upstream.url + each.target for each in upstream.log)


async def test_no_window_holds_more_than_a_limit_when_its_owner_is_killed(store, upstream, ships):
    """DD-04: of two workers one is killed in the middle of a window of 50/5s; the other goes on with what is left of it."""
    await store.submit([delivery(upstream, f"/delay/{n % 7 * 5}?n={n}") for n in range(125)])
    await store.change_lane(upstream.url, limits=Limits(rate="50/5s").stored())
    workers = {each.pid: each for each in (ships.worker(), ships.worker())}
    await upstream.until(lambda up: len(up.log) >= 70, 60)
    first = (await owners(store))[-1]
    workers.pop(first).kill()
    await at_rest(store, 125)
    (other,) = workers
    assert (await owners(store))[-1] == other
    assert upstream.peak("", 5.0) <= 50
    await workers[other].stop()
    await Books().close(store, sent(upstream))


async def test_a_worker_that_stands_still_past_its_lease_completes_nothing_twice(database, store, upstream, ships):
    """WC-01, DD-01: another goes on meanwhile, though it stands still inside a transaction, with a row locked that all need."""
    await store.submit([delivery(upstream, f"/delay/{n % 7 * 5}?n={n}") for n in range(150)])
    workers = {each.pid: each for each in (ships.worker(), ships.worker())}
    await upstream.until(lambda up: len(up.log) >= 20, 60)
    first = (await owners(store))[-1]
    frozen = workers.pop(first)
    frozen.freeze()
    while not await standing(database):
        frozen.thaw()
        frozen.freeze()
    (other,) = workers
    await at_rest(store, 150)
    assert (await owners(store))[-1] == other
    frozen.thaw()
    await store.submit([delivery(upstream, "/ok/last")])
    await at_rest(store, 151)
    for each in (frozen, workers[other]):
        await each.stop()
    assert "Traceback" not in ships.told, ships.told
    await Books().close(store, sent(upstream))


async def standing(database):
    """Return whether a transaction is open in which nothing is done."""
    db = await asyncpg.connect(database)
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    # What was sent when its sender was stopped is still carried out.
    counts = [await db.fetchval(asked) for _ in range(3)]
    await db.close()
    return all(counts)
