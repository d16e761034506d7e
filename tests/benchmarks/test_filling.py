"""Filling: the copies are deliveries like any other."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from benchmarks.filling import ALL, ENDS, HOUR, fill
from benchmarks.places import place
from comity.service.stores import open_store
from comity.store.records import NewDelivery, Query

ORIGIN = "https://host.example:443"
LIKE = NewDelivery(origin=ORIGIN, method="POST", url=f"{ORIGIN}/hook", body=b"{}", idempotency_key="key")
MANY = 50


@pytest.fixture
def store():
    with place("SQLite") as made:
        yield made


async def _look(store, ask):
    opened = await open_store(store.url)
    try:
        return await ask(opened)
    finally:
        await opened.close()


def test_the_counts_of_lanes_are_those_of_the_rows(store):
    asyncio.run(fill(store, LIKE, MANY, "completed", age=HOUR))
    asyncio.run(fill(store, LIKE, MANY // 2))
    counts = asyncio.run(_look(store, lambda opened: opened.counts()))
    assert (counts.completed, counts.pending, counts.ready) == (MANY, MANY // 2, MANY // 2)
    assert asyncio.run(store.value("SELECT count(*) FROM deliveries")) == MANY + MANY // 2


@pytest.mark.parametrize("end", ENDS)
def test_what_ended_has_its_payload_and_its_attempt(store, end):
    asyncio.run(fill(store, LIKE, MANY, end, tables=ALL))

    async def ask(opened):
        page = await opened.deliveries(Query(state=end), None, MANY + 1)
        assert len({each.idempotency_key for each in page.deliveries}) == MANY
        for each in page.deliveries:
            (attempt,) = await opened.attempts(each.id)
            assert attempt.decision == end
            assert await opened.payload(each.id) is not None
        return page.deliveries

    found = asyncio.run(_look(store, ask))
    assert len(found) == MANY
    assert [each.id for each in found] == sorted((each.id for each in found), reverse=True)
    assert found[0].created_at > found[-1].created_at


def test_what_waits_can_be_claimed(store):
    asyncio.run(fill(store, LIKE, MANY))

    async def ask(opened):
        lease = await opened.register("test", HOUR)
        await opened.own(lease, 1)
        return await opened.claim(lease, 4 * MANY)

    assert len(asyncio.run(_look(store, ask)).claims) == MANY


def test_each_event_and_each_key_is_one_of_a_delivery(store):
    asyncio.run(fill(store, LIKE, MANY, "completed", tables=ALL))
    of_all = "SELECT count(DISTINCT delivery) FROM events WHERE delivery IN (SELECT id FROM deliveries)"
    assert asyncio.run(store.value(of_all)) == MANY
    assert asyncio.run(store.value("SELECT count(*) FROM keys k JOIN deliveries d ON d.id = k.id")) == MANY


def test_a_file_is_gone_after_its_block():
    with place("SQLite") as made:
        path = made.url.removeprefix("sqlite:///")
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("SELECT 1 FROM deliveries")
