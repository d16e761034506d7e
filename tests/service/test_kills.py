"""Kills: processes of a service that are killed at random lose nothing, end nothing twice and explain every repetition.

COMITY_KILLS says how many kills there are (10); COMITY_SEED makes them come at the same moments again, as far as a kill can.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import pytest

from comity.policy.retry import Retry
from comity.service.client import AsyncServiceClient
from comity.service.stores import migrate_store
from comity.testing.upstream import Upstream
from tests.service.books import ALIVE, Books, opened
from tests.service.fleet import fleet
from tests.service.load import load
from tests.service.past import clear, fill

KILLS = int(os.environ.get("COMITY_KILLS", "10"))
SEED = int(os.environ.get("COMITY_SEED", "0"))
PER_KILL = 24
"""So many deliveries for each kill: about as many as are under way in one life."""

OLD, AGAIN = 300, 4
"""So many old ends there are for each kill at first, which every process begins to prune, and so many to be replayed."""

LATEST = 0.5
"""Some kills do not wait for anything to arrive, but come so many seconds after the one before at the latest."""

PATIENCE = 300
"""So many seconds a kill waits for arrivals: on a machine that does a lot besides they may be long in coming."""

OPTIONS = ("--allow", "127.0.0.0/8", "--lease", "1s", "--slots", "32", "--concurrency", "16", "--rate", "1000/s")


@pytest.fixture
def sqlite(tmp_path):
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", "database"], ids=["sqlite", "postgres"])
def store(request):
    """The URL of an empty store."""
    return request.getfixturevalue(request.param)


async def ended(api, numbers):
    """Wait until all have come to their ends."""
    for number in numbers:
        while (await api.get(number, wait=60))["status"] in ALIVE:
            pass


async def moment(upstream, chance):
    """Wait for the next kill's."""
    if chance.random() < 0.25:
        await asyncio.sleep(chance.uniform(0, LATEST))
    else:
        most = len(upstream.log) + chance.randrange(1, PER_KILL)
        await upstream.until(lambda up: len(up.log) >= most, PATIENCE)


async def test_a_service_that_is_killed_loses_nothing_and_ends_nothing_twice(tmp_path, store):
    """WC-01, WC-05, NP-027..029, DD-03, BK-01: the API, its worker and workers beside it, which SQLite has not.

    Every id that was told comes to an end, with as many attempts as there are rows; what arrived more often than its attempts
    have an outcome arrived in an attempt that reads `unknown`. Meanwhile old ends are pruned, others replayed, and schedules made.
    """
    chance, books, alone = random.Random(SEED), Books(), store.startswith("sqlite")
    await migrate_store(store)
    with Upstream() as upstream, fleet(tmp_path, store, *OPTIONS) as ships:
        await fill(store, upstream.url, old=OLD * KILLS, again=AGAIN * KILLS)
        living = [(start, start()) for start in ([ships.serve] if alone else [ships.serve, ships.worker])]
        async with load(ships.url, upstream.url) as some:
            for _ in range(KILLS):
                some.allow(PER_KILL)
                await moment(upstream, chance)
                start, victim = living.pop(chance.randrange(len(living)))
                victim.kill()
                async with opened(store) as looked_at:
                    await books.look(looked_at)
                living.append((start, start()))
        async with AsyncServiceClient(ships.url, retry=Retry(attempts=100)) as api:
            assert {each["id"] async for each in api.schedules()} == set(some.schedules.values())
            for each in some.schedules.values():
                await api.remove_schedule(each)
            await ended(api, some.acknowledged.values())
            await ended(api, [each["id"] for state in ALIVE async for each in api.deliveries(status=state)])
        for _, each in living:
            await each.stop()
        assert "Traceback" not in ships.told, ships.told
        async with opened(store) as looked_at:
            stored = {each for each in some.acknowledged.values() if await looked_at.get(each)}
            assert stored == set(some.acknowledged.values())
            assert len(stored) == len(some.acknowledged) > KILLS
            assert some.replayed >= AGAIN * KILLS
            await clear(looked_at)
            await books.close(looked_at, Counter(upstream.url + each.target for each in upstream.log))


async def test_what_kills_its_workers_is_given_up_and_the_others_are_delivered(tmp_path, sqlite):
    """PO-01: after 3 deaths it is failed, its worker lost; the attempt is counted before it starts."""
    with Upstream() as upstream, fleet(tmp_path, sqlite, *OPTIONS) as ships:
        living = ships.serve()
        async with AsyncServiceClient(ships.url, retry=Retry(attempts=100)) as api:
            url = upstream.url + "/flaky/deadly?fail=9&code=hang"
            deadly = await api.submit(url, max_retries=2, backoff_ms=100)
            others = [await api.submit(f"{upstream.url}/ok/{n}") for n in range(20)]
            for deaths in range(1, 4):
                await upstream.until(lambda up, deaths=deaths: len(up.arrivals("/flaky/deadly")) == deaths, 60)
                living.kill()
                living = ships.serve()
            await ended(api, [each["id"] for each in (deadly, *others)])
            told = await api.get(deadly["id"])
            assert (told["status"], told["reason"], told["attemptCount"]) == ("failed", "worker lost", 3)
            assert {(await api.get(each["id"]))["status"] for each in others} == {"completed"}
        await living.stop()
