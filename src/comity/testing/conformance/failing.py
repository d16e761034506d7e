"""Failing lanes: those that nothing but failures came of for long are paused, when somebody asks for that."""

from __future__ import annotations

from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import Ended, Lane
from comity.testing.conformance.stage import AGAIN, GONE, NOT_SENT, OK, REFUSED, Stage, claims, new, submit, worker

DAY = 86_400 * NS


async def lane_of(store: Store, key: str) -> Lane:
    """Return a lane that must be there."""
    found = await store.lane(key)
    assert found is not None
    return found


class Failing:
    """Whose receiver seems to be gone."""

    async def test_a_lane_that_did_nothing_but_fail_is_paused_and_says_why(self, stage: Stage) -> None:
        """From the first failure to the last one; others go on, and so does it once somebody resumes it."""
        async with stage.opened() as store:
            lease = await worker(store)

            async def each(lane: str, ended: Ended) -> None:
                (number,) = await submit(store, new(lane=lane))
                (claim,) = await claims(store, lease)
                assert claim.id == number
                await store.begin(claim)
                await store.finish(claim, ended)

            await each("dead", GONE)
            await each("well", GONE)
            stage.advance(DAY)
            await each("dead", GONE)
            await each("well", OK)
            stage.advance(2 * DAY)
            assert await store.disable(2 * DAY) == []
            await each("dead", GONE)
            await each("well", GONE)
            (paused,) = await store.disable(2 * DAY)
            assert paused == await lane_of(store, "dead")
            assert paused.paused
            assert (paused.pause_reason or "").startswith("nothing but failures since 20")
            last = (await store.events(0))[-1]
            assert (last.kind, last.lane, last.note) == ("lane.paused", "dead", paused.pause_reason)
            assert await store.disable(2 * DAY) == []
            await submit(store, new(lane="dead"))
            assert list(await claims(store, lease)) == []
            resumed = await store.change_lane("dead", paused=False)
            assert resumed is not None
            assert (resumed.paused, resumed.pause_reason) == (False, None)
            assert len(await claims(store, lease)) == 1
            assert await store.disable(2 * DAY) == []

    async def test_refusals_by_rate_are_neither_failures_nor_a_success(self, stage: Stage) -> None:
        """Of the others each counts, also one of which nothing was sent."""
        async with stage.opened() as store:
            await submit(store, new(1, lane="refused"), new(2, lane="retried"))
            lease = await worker(store)
            for ended in (REFUSED, AGAIN, NOT_SENT, REFUSED, AGAIN):
                held = await claims(store, lease)
                assert len(held) == 2
                for claim in held:
                    await store.begin(claim)
                    await store.finish(claim, REFUSED if claim.lane == "refused" else ended)
                stage.advance(11 * NS)
                lease = (await store.renew(lease)).lease
            assert await store.disable(40 * NS) == []
            assert [lane.key for lane in await store.disable(30 * NS)] == ["retried"]
            await store.change_lane("retried", paused=True)
            assert (await lane_of(store, "retried")).pause_reason is None
