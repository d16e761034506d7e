"""Outages: while the store is away nothing in flight is cut and nobody gives up; afterwards everything goes on by itself."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from comity.errors import LeaseLost, StoreError
from comity.service.outage import Outage, passes
from comity.service.signature import new_secret
from comity.testing.upstream import Upstream
from tests.service.running import LIMIT, Bench, bench
from tests.store.postgres_stage import PostgresStage
from tests.store.proxy import Proxy

AWAY = StoreError("no connection")


class Away:
    """A store that can be away; it counts what it refused."""

    def __init__(self, store):
        self._store, self.away, self.refused = store, False, Counter()
        self._told = asyncio.Event()

    def __getattr__(self, name):
        if not self.away:
            return getattr(self._store, name)
        self.refused[name] += 1
        self._told.set()
        return self._refuse

    async def _refuse(self, *_arguments, **_named):
        raise AWAY

    async def until(self, **times):
        """Return when so many calls of these names were refused."""
        async with asyncio.timeout(LIMIT):
            while any(self.refused[name] < most for name, most in times.items()):
                self._told.clear()
                await self._told.wait()


async def test_a_service_whose_store_is_away_at_its_start_waits_for_it(tmp_path, caplog):
    """Every part of it asks more often than it may fail, and begins its work when the store is back."""
    async with bench(tmp_path) as work:
        store, delivery = Away(work.store), await work.submit("/ok/1")
        store.away = True
        async with work.service(store=store, secrets=[new_secret()]):
            await store.until(last_event=6, marked=6, rescue=6, prune=6)
            store.away = False
            assert (await work.end(delivery)).state == "completed"
    assert "part worker waits for the store: no connection" in caplog.text
    assert [each for each in caplog.records if each.levelno > logging.WARNING] == []


async def test_what_is_in_flight_when_the_store_goes_away_ends_once(tmp_path, caplog):
    """WC-05: its answer is told when the store is back; the lease lasts that long."""
    async with bench(tmp_path) as work:
        store, delivery = Away(work.store), await work.submit("/delay/300")
        async with work.service(store=store):
            await work.upstream.until(lambda up: len(up.log) == 1)
            store.away = True
            await store.until(finish=2, events=6)
            store.away = False
            found = await work.end(delivery)
            other = await work.end(await work.submit("/ok/1"))
    assert (found.state, found.attempts, other.state) == ("completed", 1, "completed")
    assert [each for each in caplog.records if each.levelno > logging.WARNING] == []


@pytest.fixture
async def behind(postgres):
    """A bench on Postgres, and the way there."""
    async with Proxy(postgres) as proxy, Upstream() as upstream:
        stage = PostgresStage(proxy.url)
        try:
            yield Bench(await stage.open(), upstream, None), proxy
        finally:
            stage.dsn = postgres
            await stage.remove()


async def test_a_database_that_is_cut_off_for_a_while_costs_no_attempt(behind, caplog):
    """What was in flight ends with its answer, what was submitted is delivered, and calls in between fail at once."""
    work, proxy = behind
    slow = [await work.submit(f"/delay/1000?n={n}") for n in range(3)]
    waiting = await work.submit("/ok/1", delay=500_000_000)
    async with work.service():
        await work.upstream.until(lambda up: len(up.log) == 3)
        await proxy.cut()
        async with asyncio.timeout(LIMIT):
            while "the end of an attempt" not in caplog.text:
                with pytest.raises(StoreError, match="no connection"):
                    await work.submit("/ok/2")
        await proxy.mend()
        found = [await work.end(each) for each in slow]
        assert [(each.state, each.attempts) for each in found] == [("completed", 1)] * 3
        assert (await work.end(waiting)).state == "completed"
        assert (await work.end(await work.submit("/ok/3"))).state == "completed"
    assert sorted(work.arrivals().values()) == [1] * 5
    assert [each for each in caplog.records if each.levelno > logging.WARNING] == []


@pytest.mark.parametrize(
    "error", [StoreError("x", reason="closed"), StoreError("x", reason="schema"), LeaseLost("x"), OSError("x")]
)
def test_what_waiting_does_not_mend_is_raised(error):
    assert not passes(error)
    with pytest.raises(type(error)):
        Outage("worker").bear(error)


def test_an_outage_is_told_at_its_beginning_and_its_end(caplog):
    outage = Outage("worker w")
    outage.over()
    for _ in range(3):
        outage.bear(StoreError("no connection"))
    outage.over()
    assert [each.message for each in caplog.records] == [
        "worker w waits for the store: no connection",
        "worker w goes on: the store takes part again",
    ]
