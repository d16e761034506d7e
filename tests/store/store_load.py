"""Load on a store whose database comes and goes: what it was told is compared with what stands there at the end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from comity.errors import LeaseLost, StoreError
from comity.testing.conformance.stage import AGAIN, OK, everything, new, worker


class Insistent:
    """Submits and delivers without end, and calls again whenever a call fails; knows what it was told."""

    def __init__(self, store):
        self.store = store
        self.submitted, self.completed, self.errors = set(), set(), []
        self.over = False
        self._more = asyncio.Event()

    async def insist(self, call, *args):
        while True:
            try:
                return await call(*args)
            except LeaseLost:
                return None
            except StoreError as error:
                self.errors.append(error)
                await asyncio.sleep(0)

    async def submitting(self, number):
        while not self.over:
            found = await self.insist(self.store.submit, [new(number), new(number)])
            self.submitted.update(each.id for each in found)
            self._more.set()

    async def sending(self, claim):
        if number := await self.insist(self.store.begin, claim):
            step = await self.insist(self.store.finish, claim, AGAIN if number == 1 else OK)
            if step and step.state == "completed":
                self.completed.add(claim.id)
            elif step:
                await self.insist(self.store.hasten, claim.id)

    async def working(self):
        lease = await self.insist(worker, self.store)
        while not self.over:
            await self.insist(self.store.own, lease, 10)
            claimed = await self.insist(self.store.claim, lease, 64)
            await asyncio.gather(*map(self.sending, claimed.claims))
        await self.store.resign(lease)

    async def some_more(self):
        before = len(self.submitted)
        while len(self.submitted) < before + 40 or not self.completed:
            self._more.clear()
            await self._more.wait()


@asynccontextmanager
async def loaded(store):
    """Have load for the length of a block; what it has under way is brought to its end."""
    load = Insistent(store)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.working())
        for number in range(4):
            group.create_task(load.submitting(number))
        yield load
        load.over = True


async def accounted(store, load):
    """See that nothing that was acknowledged is lost, or was done twice; nobody works on the store any more."""
    found = {each.id: each for each in await everything(store, most=1000)}
    assert load.submitted <= found.keys()
    assert load.completed <= {number for number, each in found.items() if each.state == "completed"}
    for number, each in found.items():
        rows = await store.attempts(number)
        assert [row.number for row in rows] == list(range(1, each.attempts + 1))
        assert sum(row.decision == "completed" for row in rows) == (each.state == "completed")
    totals = await store.counts()
    assert (totals.held, totals.pending + totals.retrying + totals.completed) == (0, len(found))
