"""The way to a Postgres database: cut, silent for a while, and with the other end gone; nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import random

import asyncpg
import pytest

from comity.errors import OptionsError, StoreError
from comity.store.postgres.migrations import migrate
from comity.store.postgres.store import PostgresStore
from comity.testing.conformance.stage import everything, submit
from tests.store.proxy import Proxy
from tests.store.store_load import accounted, loaded

PATIENCE = 1.0
APPLICATION = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'comity'"


@pytest.fixture
async def far(database):
    """A store at the far end of a proxy."""
    await migrate(database)
    async with Proxy(database) as way:
        store = await PostgresStore.open(way.url, patience=PATIENCE)
        yield store, way
        await store.close()


async def test_a_database_that_does_not_answer_counts_as_away_until_it_does(database, far):
    """NP-029: whoever asks is told, and events are heard again afterwards."""
    store, way = far
    await submit(store)
    way.freeze()
    calls = (submit(store), store.counts(), store.events(0), store.now())
    for error in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(error, StoreError), error
        assert (error.reason, "did not answer in time" in str(error)) == ("failed", True)
    way.thaw()
    near = await PostgresStore.open(database)
    heard = asyncio.ensure_future(store.newer(await near.last_event()))
    await submit(near)
    await heard
    await near.close()
    await submit(store)
    assert len(await everything(store)) == 3


async def test_who_comes_while_a_database_does_not_answer_waits_as_long_as_the_first_does(far):
    """Nobody waits for a turn of his own after that, nor is the first one tried again."""
    store, way = far
    await submit(store)
    way.freeze()
    waiting = []
    for _ in range(12):  # more than the connections that write take with them
        waiting.append(asyncio.ensure_future(submit(store)))
        await asyncio.sleep(0)
    with pytest.raises(StoreError, match="did not answer in time"):
        await waiting[0]
    await asyncio.sleep(0)
    assert all(isinstance(each.exception(), StoreError) for each in waiting[6:])
    await asyncio.wait(waiting)
    way.thaw()
    await submit(store)


async def test_nothing_but_ours_tells_the_log_of_a_database_that_is_away(far, caplog):
    """The driver's pool would, with a traceback for each try."""
    store, way = far
    await store.counts()
    await way.cut()
    for _ in range(3):
        with pytest.raises(StoreError):
            await store.counts()
    await way.mend()
    await store.counts()
    assert [record for record in caplog.records if record.name.startswith("asyncpg")] == []


async def test_a_patience_that_is_none_is_refused(database):
    with pytest.raises(OptionsError, match="patience"):
        await PostgresStore.open(database, patience=0)


async def test_a_network_that_fails_under_load_loses_nothing_that_was_acknowledged(database, far):
    """NP-029, WC-05: connections are cut, swallowed, and ended by the server, in any statement, the commit included."""
    store, way = far
    chance = random.Random(7)
    server = await asyncpg.connect(database)

    async def end_all():
        for (pid,) in await server.fetch(APPLICATION):
            await server.execute("SELECT pg_terminate_backend($1)", pid)

    async def silence():
        way.freeze()
        with pytest.raises(StoreError):
            await store.counts()
        way.thaw()

    async def cut():
        way.drop()

    async with loaded(store) as load:
        for fail in (cut, end_all, silence, cut, end_all, cut, end_all, silence):
            await load.some_more()
            await asyncio.sleep(chance.uniform(0, 0.05))
            await fail()
        await load.some_more()
    await server.close()
    await accounted(store, load)
