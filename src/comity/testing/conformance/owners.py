"""Owners: how origins are shared out among workers, and what a change of hands waits for."""

from __future__ import annotations

import pytest

from comity.errors import LeaseLost
from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import Share
from comity.testing.conformance.stage import LEASE, OK, ORIGIN, Stage, new, submit


async def origins(store: Store, count: int, begin: int = 0) -> None:
    """Have so many origins with something to do."""
    await submit(store, *(new(each, origin=f"https://host{each}:443") for each in range(begin, begin + count)))


class Owners:
    """Fair shares, and changes of hands."""

    @pytest.mark.parametrize(("workers", "fair"), [(2, 15), (3, 10), (4, 8)])
    async def test_each_worker_takes_its_share_of_the_origins(self, stage: Stage, workers: int, fair: int) -> None:
        """Whoever asks first gets no more, and all together get all of them; the share is rounded up."""
        async with stage.opened() as store:
            await origins(store, 30)
            leases = [await store.register(f"worker {each}", LEASE) for each in range(workers)]
            assert await store.share(leases[0]) == Share(owned=0, fair=fair)
            taken = [len(await store.own(lease, 1000)) for lease in leases]
            assert taken == [fair] * (30 // fair) + [30 % fair] * (30 % fair > 0)
            assert await store.share(leases[0]) == Share(owned=fair, fair=fair)
            assert [await store.own(lease, 1000) for lease in leases] == [[]] * workers

    async def test_one_worker_alone_takes_all_and_another_what_it_gives_up(self, stage: Stage) -> None:
        """Origins without anything to do are no part of the reckoning."""
        async with stage.opened() as store:
            await origins(store, 10)
            first = await store.register("first", LEASE)
            mine = await store.own(first, 1000)
            assert len(mine) == 10
            second = await store.register("second", LEASE)
            assert (await store.own(second, 1000), await store.share(first)) == ([], Share(owned=10, fair=5))
            await store.disown(first, [each.name for each in mine[:5]])
            assert await store.own(first, 1000) == []
            assert len(await store.own(second, 1000)) == 5
            for claim in (await store.claim(second, 100)).claims:
                await store.begin(claim)
                await store.finish(claim, OK)
            assert await store.share(second) == Share(owned=0, fair=3)

    async def test_what_another_leaves_alone_can_be_taken_beyond_the_share(self, stage: Stage) -> None:
        """By so many as is asked for."""
        async with stage.opened() as store:
            await origins(store, 10)
            lease, _ = await store.register("first", LEASE), await store.register("second", LEASE)
            assert [len(await store.own(lease, 4)), len(await store.own(lease, 4))] == [4, 1]
            assert len(await store.own(lease, 1000, 2)) == 2
            assert await store.own(lease, 1000, 2) == []
            assert len(await store.own(lease, 2, 1000)) == 2

    async def test_an_origin_changes_hands_when_nothing_is_under_way_there(self, stage: Stage) -> None:
        """Else the next owner's limits would not know of it; what it taught at its end is written down all the same."""
        async with stage.opened() as store:
            await submit(store, new(1), new(2))
            first, second = await store.register("first", LEASE), await store.register("second", LEASE)
            await store.own(first, 1)
            claim, waiting = (await store.claim(first, 100)).claims
            await store.begin(claim)
            await store.disown(first, [ORIGIN])
            with pytest.raises(LeaseLost):
                await store.begin(waiting)
            assert (await store.own(second, 1), await store.own(first, 1)) == ([], [])
            await store.hold(first, ORIGIN, gap=NS)
            await store.finish(claim, OK)
            (origin,) = await store.own(second, 1)
            assert (origin.gap, origin.lease) == (NS, second.id)
            assert len(await store.starts(ORIGIN, 0)) == 1
            with pytest.raises(LeaseLost):
                await store.hold(first, ORIGIN, gap=0)

    async def test_a_rescued_worker_writes_nothing_of_an_origin_that_nobody_owns(self, stage: Stage) -> None:
        """Its lease is over."""
        async with stage.opened() as store:
            await submit(store, new(1))
            lease = await store.register("late", LEASE)
            await store.own(lease, 1)
            stage.advance(LEASE)
            await store.rescue(0)
            with pytest.raises(LeaseLost):
                await store.hold(lease, ORIGIN, gap=NS)
