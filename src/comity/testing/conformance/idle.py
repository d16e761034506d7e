"""Idle lanes: those that nobody uses any more go, and nobody who comes back to one notices."""

from __future__ import annotations

import asyncio
from typing import Any

from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import Lease, NewDelivery, Retention
from comity.testing.conformance.stage import LEASE, Stage, claims, known, new, send, submit, worker

AT_ONCE = Retention(completed=0, failed=0, cancelled=0, keys=0, events=0, minutes=0)
LONG = Retention().lanes + 1


def to(host: str, **options: Any) -> NewDelivery:
    """Return a request to a host with a lane of its own."""
    return new(origin=origin(host), **options)


def origin(host: str) -> str:
    """Return the name of a host's origin, and of the lane that is called as it."""
    return f"https://{host}:443"


async def keys(store: Store) -> list[str]:
    """Return which lanes there are."""
    return [lane.key for lane in await store.lanes()]


async def used(store: Store, *many: NewDelivery) -> Lease:
    """Deliver, let all of that be deleted, and leave the origins; return the worker's lease."""
    await submit(store, *many)
    lease = await worker(store)
    for _ in many:
        await send(store, lease)
    await store.disown(lease, [each.name for each in await store.origins()])
    await store.prune(Retention(completed=0))
    return lease


class Idle:
    """Lanes without deliveries."""

    async def test_a_lane_that_nobody_used_for_long_goes_and_its_origin_with_it(self, stage: Stage) -> None:
        """As long as anything may be left that names it, it stays; whoever comes back makes it anew."""
        async with stage.opened() as store:
            await used(store, to("old"))
            await submit(store, to("new"))
            stage.advance(LONG - 60 * NS)
            await store.prune(Retention())
            assert await keys(store) == [origin("new"), origin("old")]
            stage.advance(61 * NS)
            pruned = await store.prune(Retention())
            assert (pruned.lanes, pruned.origins, pruned.more) == (1, 1, False)
            assert await keys(store) == [each.name for each in await store.origins()] == [origin("new")]
            (number,) = await submit(store, to("old"))
            lease = await worker(store, "next")
            for _ in range(2):
                await send(store, lease)
            assert (await known(store, number)).lane == origin("old")
            assert (await store.counts()).completed == 2

    async def test_a_lane_for_which_anything_was_set_stays(self, stage: Stage) -> None:
        """Its limits or its pause would be lost; without them it is as any other."""
        async with stage.opened() as store:
            await used(store, *(to("one", lane=lane) for lane in ("limited", "paused", "plain")))
            await store.change_lane("limited", limits=b'{"rate":"5/s"}')
            await store.change_lane("paused", paused=True)
            await submit(store, to("new"))
            stage.advance(LONG)
            assert (await store.prune(Retention())).lanes == 1
            assert await keys(store) == [origin("new"), "limited", "paused"]
            await store.change_lane("limited", limits=b"{}")
            await store.change_lane("paused", paused=False)
            await submit(store, to("new"))
            assert (await store.prune(Retention())).lanes == 0
            stage.advance(LONG)
            await submit(store, to("new"))
            assert (await store.prune(Retention())).lanes == 2
            assert len(await store.origins()) == 1

    async def test_an_origin_stays_with_one_lane_while_there_is_anything_to_remember(self, stage: Stage) -> None:
        """An owner, a pause, a block or a gap; a second lane goes all the same."""
        async with stage.opened() as store:
            await submit(store, *(to("host", lane=lane) for lane in ("first", "second")))
            lease = await worker(store)
            for _ in range(2):
                await send(store, lease)
            await store.prune(Retention(completed=0))
            stage.advance(LONG)
            lease = (await store.renew(lease)).lease
            await submit(store, to("new"))
            await store.prune(Retention())
            assert await keys(store) == ["first", origin("new")]
            for pause, block, gap in ((0, 3600 * NS, 0), (3600 * NS, 0, 0), (0, 0, NS)):
                await store.hold(lease, origin("host"), pause=pause, block=block, gap=gap)
                await store.disown(lease, [origin("host")])
                await submit(store, to("new"))
                assert (await store.prune(Retention())).lanes == 0
                # Owned again only with something to do; that is over at once.
                (number,) = await submit(store, to("host", lane="first", delay=2 * LONG))
                await store.own(lease, 10)
                await store.cancel(number)
                await store.prune(Retention(cancelled=0))
                stage.advance(LONG)
                lease = (await store.renew(lease)).lease
            await store.hold(lease, origin("host"))
            await store.disown(lease, [origin("host")])
            await submit(store, to("new"))
            pruned = await store.prune(Retention())
            assert (pruned.lanes, pruned.origins) == (1, 1)
            assert await keys(store) == [origin("new")]

    async def test_a_lane_in_use_stays_whatever_its_age(self, stage: Stage) -> None:
        """What waits, and what is kept of what has ended, both are use."""
        async with stage.opened() as store:
            await submit(store, to("waits", delay=10 * LONG), to("kept"))
            await send(store, await worker(store))
            stage.advance(LONG)
            await submit(store, to("new"))
            assert (await store.prune(Retention(completed=2 * LONG))).lanes == 0
            assert len(await keys(store)) == 3

    async def test_they_go_a_part_at_a_time(self, stage: Stage) -> None:
        """And those of which the last event tells stay with it."""
        async with stage.opened() as store:
            await used(store, *(to(f"host{each:02}") for each in range(25)))
            stage.advance(LONG)
            parts = []
            while True:
                pruned = await store.prune(Retention(), most=10)
                parts.append(pruned.lanes)
                if not pruned.more and not pruned.lanes:
                    break
            assert sum(parts) == 24
            assert max(parts) <= 10
            ((last,), (lane,)) = (await store.events(0), await store.lanes())
            assert last.origin == lane.origin.name
            assert [each.name for each in await store.origins()] == [last.origin]

    async def test_a_submission_to_a_lane_that_is_just_deleted_is_delivered(self, stage: Stage) -> None:
        """However often that happens."""
        async with stage.opened() as store:
            lease = await store.register("worker", LEASE)
            hosts, over = ("a", "b", "c"), False

            async def prune() -> int:
                lanes = 0
                while not over:
                    lanes += (await store.prune(AT_ONCE, most=50)).lanes
                return lanes

            async def deliver() -> None:
                nonlocal over
                for turn in range(24):
                    host = hosts[turn % len(hosts)]
                    (number,) = await submit(store, to(host))
                    (claim,) = await claims(store, lease)
                    assert (claim.id, claim.lane) == (number, origin(host))
                    await store.cancel(number)
                    await store.give_back([claim])
                    await store.disown(lease, [origin(host)])
                    stage.advance(1)
                over = True

            pruned, _ = await asyncio.gather(prune(), deliver())
            assert pruned > len(hosts)
            totals = await store.counts()
            assert (totals.pending, totals.held, totals.ready) == (0, 0, 0)
            assert len(await keys(store)) <= len(hosts)
