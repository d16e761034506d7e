"""Upkeep: what rescuer, pruner and service do beside the worker. A real file, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import time

import pytest

from comity.policy.units import NS
from comity.service.pruner import Pruner, following
from comity.service.rescuer import Rescuer
from comity.store.records import Counts, Ended, NewDelivery, Query, Retention
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from tests.service.running import LIMIT, Failing, bench

ORIGIN = "http://upstream.example"
MISTAKE = ZeroDivisionError("a mistake of ours")
DONE, LOST = Ended(then="completed", status=200), Ended(then="failed", status=404, reason="status")


class Kept:
    """A store, and the clock that it goes by."""

    def __init__(self, path):
        migrate(path)
        self.ahead = 0
        self.store = SqliteStore(path, clock=lambda: time.time_ns() + self.ahead)

    async def submit(self, count=1, **options):
        new = [NewDelivery(origin=ORIGIN, method="POST", url=ORIGIN + "/", **options) for _ in range(count)]
        return [each.id for each in await self.store.submit(new)]

    async def end(self, *ends):
        """Send what there is and end it so, one after the other."""
        lease, left = await self.store.register("w", 3600 * NS), list(ends)
        await self.store.own(lease, 10)
        while left:
            for claim in (await self.store.claim(lease, 4)).claims:
                await self.store.begin(claim)
                await self.store.finish(claim, left.pop(0))


@pytest.fixture
async def kept(tmp_path):
    made = Kept(tmp_path / "store.sqlite")
    yield made
    await made.store.close()


async def test_ages_differ_by_state(kept):
    """RT-03: completed 1 s, failed 1 h; both 2 s old: the completed one goes, the failed one stays with its attempts."""
    numbers = await kept.submit(2)
    await kept.end(DONE, LOST)
    kept.ahead += 2 * NS
    pruner = Pruner(kept.store, Retention(completed=NS, failed=3600 * NS))
    assert await pruner.round() == 1
    found = [await kept.store.get(each) for each in numbers]
    (left,) = [each for each in found if each is not None]
    assert (left.state, len(await kept.store.attempts(left.id))) == ("failed", 1)


async def test_a_round_deletes_in_batches_until_nothing_old_is_left(kept):
    """RT-01, RT-04: all of it goes, with its attempts, and the counts say so."""
    await kept.submit(130)
    await kept.end(*[DONE] * 130)
    kept.ahead += 10 * NS
    assert await Pruner(kept.store, Retention(completed=NS), batch=20).round() == 130
    assert await kept.store.counts() == Counts()
    assert (await kept.store.deliveries(Query())).deliveries == []


@pytest.mark.parametrize(
    ("most", "took_ms", "next_most"),
    [(500, 25, 200), (500, 10, 500), (120, 5, 240), (120, 1, 240), (200, 90, 100), (100, 1_000, 100), (400, 1, 500)],
)
def test_a_batch_has_as_many_rows_as_the_writer_deletes_in_ten_milliseconds(most, took_ms, next_most):
    """RT-01: by what the last one took; twice as many at most, as the last may have been an easy one."""
    assert following(most, took_ms * NS // 1_000, 500) == next_most


async def test_a_submission_need_not_wait_for_a_round(kept):
    """RT-01: batches leave room between them."""
    await kept.submit(100)
    await kept.end(*[DONE] * 100)
    kept.ahead += 10 * NS
    pruning = asyncio.create_task(Pruner(kept.store, Retention(completed=NS), batch=5).round())
    for _ in range(5):
        await kept.submit()
    assert not pruning.done()
    assert await pruning == 100


async def test_what_a_lost_worker_held_is_ready_again(kept, caplog):
    """WC-01: the rescuer tells of it."""
    (number,) = await kept.submit()
    lease = await kept.store.register("w", NS)
    await kept.store.own(lease, 1)
    (claim,) = (await kept.store.claim(lease, 4)).claims
    await kept.store.begin(claim)
    await Rescuer(kept.store).round()
    assert (await kept.store.get(number)).sending
    kept.ahead += 2 * NS
    await Rescuer(kept.store).round()
    found = await kept.store.get(number)
    assert (found.state, found.sending, found.crashes) == ("retrying", False, 1)
    assert "1 workers were lost" in caplog.text


async def test_what_waits_beyond_its_deadline_fails_without_a_worker(kept):
    """All of it in one round, however much that is."""
    await kept.submit(3, delay=3600 * NS, deadline=await kept.store.now() + NS)
    kept.ahead += 2 * NS
    await Rescuer(kept.store).round()
    assert (await kept.store.counts()).failed == 3


async def test_a_lane_that_only_fails_is_paused_when_somebody_asked_for_that(tmp_path, caplog):
    """The service tells of it, and leaves its receiver alone from then on."""
    async with bench(tmp_path) as work:
        first = await work.submit("/status/500", terms={"max_retries": 1, "backoff_ms": 100})
        async with work.service(disable_after=0.01):
            await work.end(first)
            async with asyncio.timeout(LIMIT):
                seen = 0
                while not (await work.store.lane(work.upstream.url)).paused:
                    await work.store.newer(seen)
                    seen = await work.store.last_event()
        lane = await work.store.lane(work.upstream.url)
    assert f"the lane {lane.key} is paused: {lane.pause_reason}" in caplog.text


# The service as a whole


async def test_a_worker_that_fails_is_started_anew_and_goes_on(tmp_path, caplog):
    """NP-030: the service lives on, tells of it, and what was under way is not lost."""
    async with bench(tmp_path) as work:
        delivery = await work.submit("/ok/1")
        async with work.service(store=Failing(work.store, "register", 1, MISTAKE)):
            assert (await work.end(delivery)).state == "completed"
    assert "part worker failed and is started anew: a mistake of ours" in caplog.text


async def test_what_a_part_of_the_worker_failed_with_is_told_in_its_own_words(tmp_path, caplog):
    """Not in those of the group that it is run in."""
    async with bench(tmp_path) as work:
        delivery = await work.submit("/ok/1")
        async with work.service(store=Failing(work.store, "claim", 1, MISTAKE)):
            assert (await work.end(delivery)).state == "completed"
    assert "part worker failed and is started anew: a mistake of ours" in caplog.text


async def test_a_service_whose_worker_cannot_live_ends_loudly(tmp_path):
    """NP-030: `over` raises what it failed with, and so does the block."""
    async with bench(tmp_path) as work:
        with pytest.raises(ExceptionGroup) as caught:
            async with work.service(store=Failing(work.store, "register", 99, MISTAKE)) as service:
                await service.over()
    assert caught.group_contains(ZeroDivisionError, match="a mistake of ours")
