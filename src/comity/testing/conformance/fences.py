"""Fences: a worker that is late changes nothing."""

from __future__ import annotations

import asyncio

import pytest

from comity.errors import LeaseLost
from comity.policy.units import NS
from comity.store.records import Claimed
from comity.testing.conformance.stage import (
    LEASE,
    OK,
    ORIGIN,
    OUTCOMES,
    Stage,
    claims,
    known,
    new,
    submit,
    worker,
)


class Fences:
    """Leases, claims and origins."""

    async def test_a_delivery_is_claimed_by_one(self, stage: Stage) -> None:
        """DD-04: however many ask at the same moment."""
        async with stage.opened() as store:
            await submit(store, *(new(each, lane=f"lane{each}") for each in range(100)))
            lease = await worker(store)
            found = await asyncio.gather(*(store.claim(lease, 40) for _ in range(60)))
            taken = [claim.id for each in found for claim in each.claims]
            assert len(taken) == len(set(taken)) == 100

    async def test_a_late_worker_completes_nothing(self, stage: Stage) -> None:
        """Its lease was rescued, and another sends."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            late = await worker(store, "late")
            (old,) = await claims(store, late)
            await store.begin(old)
            stage.advance(LEASE + NS)
            await store.rescue(0)
            other = await worker(store, "other")
            (claim,) = await claims(store, other)
            await store.begin(claim)
            for ended in OUTCOMES:
                with pytest.raises(LeaseLost):
                    await store.finish(old, ended)
            with pytest.raises(LeaseLost):
                await store.begin(old)
            assert await store.give_back([old]) == 0
            for call in (
                store.renew(late),
                store.claim(late, 1),
                store.own(late, 1),
                store.hold(late, ORIGIN, pause=1),
            ):
                with pytest.raises(LeaseLost):
                    await call
            assert (await store.finish(claim, OK)).state == "completed"
            assert [row.decision for row in await store.attempts(number)] == ["unknown", "completed"]

    async def test_a_claim_ends_with_its_attempt(self, stage: Stage) -> None:
        """The same worker cannot finish twice, nor begin twice, also when it has claimed the delivery anew."""
        async with stage.opened() as store:
            await submit(store)
            lease = await worker(store)
            (first,) = await claims(store, lease)
            with pytest.raises(LeaseLost):
                await store.finish(first, OK)  # nothing has begun
            await store.begin(first)
            with pytest.raises(LeaseLost):
                await store.begin(first)
            await store.give_back([first])
            (second,) = await claims(store, lease)
            await store.begin(second)
            with pytest.raises(LeaseLost):
                await store.finish(first, OK)
            assert (await store.finish(second, OK)).state == "completed"
            with pytest.raises(LeaseLost):
                await store.finish(second, OK)

    async def test_two_that_finish_at_one_moment_are_put_in_order(self, stage: Stage) -> None:
        """One of them does, the other changes nothing."""
        async with stage.opened() as store:
            (number,) = await submit(store)
            (claim,) = await claims(store, await worker(store))
            await store.begin(claim)
            found = await asyncio.gather(*(store.finish(claim, ended) for ended in OUTCOMES), return_exceptions=True)
            assert sum(isinstance(each, LeaseLost) for each in found) == len(OUTCOMES) - 1
            assert (await known(store, number)).attempts == len(await store.attempts(number)) == 1

    async def test_a_renewed_lease_keeps_what_it_has(self, stage: Stage) -> None:
        """A request may take longer than the lease."""
        async with stage.opened() as store:
            await submit(store)
            lease = await worker(store)
            (claim,) = await claims(store, lease)
            await store.begin(claim)
            for _ in range(5):
                stage.advance(LEASE - NS)
                lease = (await store.renew(lease)).lease
                assert (await store.rescue()).leases == 0
            stage.advance(LEASE + NS)
            await store.renew(lease)  # late, but nobody has rescued it
            assert (await store.rescue()).leases == 0
            assert (await store.finish(claim, OK)).state == "completed"

    async def test_an_origin_has_one_owner(self, stage: Stage) -> None:
        """Who does not own it claims nothing of it; it changes hands when it is left or its owner is lost."""
        async with stage.opened() as store:
            await submit(store, *(new(each) for each in range(4)))
            first = await worker(store, "first")
            second = await worker(store, "second")
            assert [len((await store.claim(each, 4)).claims) for each in (second, first)] == [
                0,
                2,
            ]  # half of what is free
            (origin,) = await store.origins()
            assert origin.lease == first.id
            await store.disown(second, [ORIGIN])
            await store.disown(first, [ORIGIN])
            (origin,) = await store.own(second, 1)
            assert (origin.name, origin.lease) == (ORIGIN, second.id)
            with pytest.raises(LeaseLost):
                await store.hold(first, ORIGIN, pause=NS)
            assert len((await store.claim(second, 40)).claims) == 4  # those of the first one were ready again

    async def test_owners_take_no_more_than_they_want(self, stage: Stage) -> None:
        """The rest is for others."""
        async with stage.opened() as store:
            await submit(store, *(new(each, origin=f"https://host{each}:443") for each in range(5)))
            first, second = await store.register("first", LEASE), await store.register("second", LEASE)
            assert len(await store.own(first, 3)) == 3
            assert len(await store.own(second, 3)) == 2
            assert await store.own(first, 3) == []

    async def test_a_worker_that_resigns_leaves_nothing_behind(self, stage: Stage) -> None:
        """What it had not sent is ready at once; what it had is of unknown outcome."""
        async with stage.opened() as store:
            sent, other = await submit(store, new(1), new(2))
            lease = await worker(store)
            for claim in await claims(store, lease):
                if claim.id == sent:
                    await store.begin(claim)
            await store.resign(lease)
            assert {(await known(store, number)).state for number in (sent, other)} == {"retrying", "pending"}
            assert len(await claims(store, await worker(store))) == 2
            assert [row.decision for row in await store.attempts(sent)] == ["unknown"]

    async def test_a_caller_that_is_gone_gets_no_claims(self, stage: Stage) -> None:
        """They would be held as long as the worker lives."""
        async with stage.opened() as store:
            await submit(store, *(new(each) for each in range(20)))
            lease = await worker(store)
            for turns in range(0, 200, 10):
                task = asyncio.ensure_future(store.claim(lease, 40))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                (claimed,) = await asyncio.gather(task, return_exceptions=True)
                if isinstance(claimed, Claimed):
                    await store.give_back(claimed.claims)
            # What is given back for others is done before the second, or else before the store is closed.
            for _ in range(2):
                await submit(store)
        async with stage.opened() as store:
            totals = await store.counts()
            assert (totals.held, totals.ready) == (0, 22)
