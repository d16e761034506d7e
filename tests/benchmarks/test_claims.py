"""Claims: what is measured is a claim of as many as the row says."""

from __future__ import annotations

import asyncio

from benchmarks.claims import CLAIMED, WAITING, _claim, _owning
from benchmarks.filling import fill
from benchmarks.places import place
from comity.service.stores import open_store


async def measured(url):
    store = await open_store(url)
    try:
        return await _claim(store, await _owning(store))
    finally:
        await store.close()


def test_a_lane_alone_gets_what_a_claim_is_measured_with():
    with place("SQLite") as found:
        asyncio.run(fill(found, WAITING, 4 * CLAIMED))
        assert asyncio.run(measured(found.url)) > 0
