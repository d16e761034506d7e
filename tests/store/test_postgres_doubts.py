"""Doubts: a connection that is lost, or silent, at a commit or at the end leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from comity.errors import StoreError
from comity.store.postgres.store import PostgresStore
from comity.testing.conformance.stage import claims, submit, worker
from tests.store.proxy import Proxy


async def test_what_is_claimed_in_doubt_is_given_back_when_the_database_is_back(postgres_stage):
    """Nobody knows that it was claimed, so nobody would ever send it while that lease lasts."""
    async with Proxy(postgres_stage.dsn) as proxy:
        here = await postgres_stage.open()
        store = await PostgresStore.open(proxy.url, schema=postgres_stage.schema)
        (number,) = await submit(here)
        lease = await worker(store)
        proxy.swallow(b"COMMIT")
        claiming = asyncio.create_task(store.claim(lease, 1))
        await proxy.swallowed.wait()
        while not (await here.counts()).held:
            pass
        await proxy.cut()
        with pytest.raises(StoreError, match="not known"):
            await claiming
        with pytest.raises(StoreError):
            await submit(store)
        assert (await here.counts()).held == 1
        await proxy.mend()
        (claim,) = await claims(store, lease)
        assert claim.id == number
        await store.close()


async def test_a_server_that_says_nothing_is_given_up_and_asked_again_later(postgres_stage):
    """Neither calls nor the closing hang for ever."""
    await postgres_stage.open()
    async with Proxy(postgres_stage.dsn) as proxy:
        store = await PostgresStore.open(proxy.url, schema=postgres_stage.schema, patience=0.2)
        await submit(store)
        proxy.freeze()
        for call in (submit(store), store.counts()):
            with pytest.raises(StoreError, match="did not answer"):
                await call
        proxy.thaw()
        await submit(store)
        assert (await store.counts()).pending == 2
        proxy.freeze()
        await store.close()
