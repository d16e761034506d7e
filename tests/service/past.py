"""Past: what a store has from before it is tried: ends that are old enough to be pruned, and ends to deliver again."""

from __future__ import annotations

import time

from comity.policy.units import NS
from comity.service.pruner import Pruner
from comity.service.stores import sqlite_file
from comity.service.terms import Terms
from comity.store.postgres.store import PostgresStore
from comity.store.records import NewDelivery, Query
from comity.store.sqlite.store import SqliteStore
from comity.testing.conformance.stage import everything
from tests.service.books import AGAIN, opened

_LONG_AGO = 40 * 86_400 * NS
_OLD = "old"
_TERMS = Terms(max_retries=50, backoff_ms=100)


async def fill(url, upstream, *, old, again):
    """Give a store so many ends that are to be pruned, and so many, in the lane AGAIN, that can be replayed."""
    path = sqlite_file(url)
    if path is not None:
        store = SqliteStore(path, clock=lambda: time.time_ns() - _LONG_AGO)
    else:
        store = await PostgresStore.open(url, clock=lambda now: now - _LONG_AGO)
    await _failed(store, [_new(_OLD, f"{upstream}/old/{n}") for n in range(old)])
    await store.close()
    async with opened(url) as store:
        await _failed(store, [_new(AGAIN, f"{upstream}/ok/again{n}") for n in range(again)])


async def clear(store):
    """Prune what is left, and see that nothing of that is."""
    await Pruner(store).round()
    assert await everything(store, Query(lane=_OLD)) == []


def _new(lane, url):
    return NewDelivery(
        origin=url.rpartition("/")[0].rpartition("/")[0], lane=lane, method="POST", url=url, deadline=1,
        options=_TERMS.stored(), max_attempts=_TERMS.max_retries + 1,
    )  # fmt: skip


async def _failed(store, new):
    await store.submit(new)
    while await store.expire(1_000):
        pass
