"""Keeping: what is old enough goes, and nothing of it stays behind."""

from __future__ import annotations

import asyncio

from comity.policy.units import NS
from comity.store.records import Retention
from comity.testing.conformance.stage import AGAIN, GONE, Stage, claims, everything, new, send, submit, worker

DAY = 86_400 * NS


class Keeping:
    """Ages by state."""

    async def test_each_state_has_an_age_of_its_own(self, stage: Stage) -> None:
        """RT-03: the completed one is gone, the failed one stays with its attempts; what is alive is never pruned."""
        async with stage.opened() as store:
            await submit(store, *(new(each) for each in range(4)))
            lease = await worker(store)
            await send(store, lease)
            failed = (await claims(store, lease, 1))[0]
            await store.begin(failed)
            await store.finish(failed, GONE)
            await send(store, lease, AGAIN)
            stage.advance(2 * NS)
            pruned = await store.prune(Retention(completed=NS, failed=3600 * NS))
            assert (pruned.deliveries, pruned.more) == (1, False)
            assert sorted(each.state for each in await everything(store)) == ["failed", "pending", "retrying"]
            assert len(await store.attempts(failed.id)) == 1
            stage.advance(1000 * DAY)
            await store.prune(Retention())
            assert sorted(each.state for each in await everything(store)) == ["pending", "retrying"]

    async def test_it_goes_a_part_at_a_time_and_leaves_no_orphans(self, stage: Stage) -> None:
        """RT-04: the counts follow, payload, answer and attempts go with the delivery."""
        async with stage.opened() as store:
            numbers = await submit(store, *(new(each) for each in range(25)))
            lease = await worker(store)
            for _ in numbers:
                await send(store, lease)
            assert (await store.counts()).completed == 25
            stage.advance(10 * NS)
            parts = []
            while True:
                pruned = await store.prune(Retention(completed=NS), most=10)
                parts.append(pruned.deliveries)
                if not pruned.more:
                    break
            assert parts == [10, 10, 5]
            assert (await store.counts()).completed == 0
            for number in numbers:
                assert await store.get(number) is None
                assert await store.payload(number) is None
                assert await store.answer(number) is None
                assert await store.attempts(number) == []

    async def test_the_last_event_stays_so_that_no_number_comes_twice(self, stage: Stage) -> None:
        """Sums of minutes have an age as well."""
        async with stage.opened() as store:
            await submit(store, new(1), new(2))
            await send(store, await worker(store))
            last = (await store.events(0))[-1].seq
            stage.advance(100 * DAY)
            pruned = await store.prune(Retention())
            assert (pruned.events, pruned.minutes) == (last - 1, 1)
            await submit(store)
            assert [each.seq for each in await store.events(0)] == [last, last + 1]

    async def test_pruning_and_claiming_do_not_disturb_each_other(self, stage: Stage) -> None:
        """Every delivery is sent once and pruned once, while the pruner runs all the time."""
        async with stage.opened() as store:
            lease = await worker(store)
            gone = sent = 0

            async def prune() -> None:
                nonlocal gone
                while gone < 50:
                    gone += (await store.prune(Retention(completed=0), most=7)).deliveries
                    await asyncio.sleep(0)

            async def deliver() -> None:
                nonlocal sent
                for _ in range(50):
                    await submit(store)
                    await send(store, lease)
                    sent += 1
                    stage.advance(1)

            await asyncio.gather(prune(), deliver())
            totals = await store.counts()
            assert (sent, gone, totals.completed, totals.held, totals.ready) == (50, 50, 0, 0, 0)
