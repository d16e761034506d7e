"""Readers: who wants events of some kinds goes on behind all others, and rests when nothing is new."""

from __future__ import annotations

import asyncio

import pytest

from comity.client.aiohttp_transport import AiohttpTransport
from comity.engine.clock import MONOTONIC
from comity.service.callbacks import Callbacks
from comity.service.errand import Setting
from comity.service.worker import Worker
from tests.service.running import LIMIT, LOOPBACK, bench


class Followed:
    """A store that notes behind which event somebody waits for the next."""

    def __init__(self, store):
        self._store, self._waits = store, asyncio.Condition()
        self.behind = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def newer(self, after):
        async with self._waits:
            self.behind = after
            self._waits.notify_all()
        return await self._store.newer(after)

    async def until_behind(self, seq):
        async with asyncio.timeout(LIMIT), self._waits:
            await self._waits.wait_for(lambda: self.behind >= seq)


def worker(store):
    return Worker(Setting(store=store, transport=AiohttpTransport(guard=LOOPBACK), clock=MONOTONIC))


@pytest.mark.parametrize("reader", [worker, Callbacks], ids=["worker", "callbacks"])
async def test_a_reader_rests_behind_what_is_of_no_concern_to_it(tmp_path, reader):
    """Else it would be told at once, for ever, that there is something newer."""
    async with bench(tmp_path) as work:
        store = Followed(work.store)
        task = asyncio.create_task(reader(store).run())
        for _ in range(3):
            await work.submit("/ok/1", delay=3_600_000_000_000)
        await store.until_behind(await work.store.last_event())
        task.cancel()
        await asyncio.wait([task])
