"""An ordered lane as its receiver sees it: real sockets, a real file, workers that come and go."""

from __future__ import annotations

from itertools import groupby

import pytest

from comity.policy.options import Policy
from tests.service.running import bench


@pytest.fixture
async def work(tmp_path):
    async with bench(tmp_path) as made:
        yield made


def in_turn(work):
    """Return what arrived, each run of the same as one."""
    return [target for target, _ in groupby(arrival.target for arrival in work.upstream.log)]


async def submit(work, *targets, **options):
    """Submit to an ordered lane, the oldest with the least priority; return the ids."""
    line = {"lane": "line", "ordered": True} | options
    new = [work.delivery(target, priority=9 - at, **line) for at, target in enumerate(targets)]
    return [each.id for each in await work.store.submit(new)]


async def test_a_receiver_sees_them_in_order_failures_and_retries_in_between(work):
    """Nobody goes before one that waits for its retry; one that failed for good holds nobody up. Others go meanwhile."""
    targets = ["/ok/0", "/flaky/1?fail=2&code=500", "/status/404", "/flaky/3?fail=1&code=503", "/ok/4", "/ok/5"]
    numbers = await submit(work, *targets)
    async with work.service():
        assert (await work.end(await work.submit("/ok/other"))).state == "completed"
        ends = [(await work.end(each)).state for each in numbers]
    assert ends == ["completed", "completed", "failed", "completed", "completed", "completed"]
    assert [target for target in in_turn(work) if target != "/ok/other"] == targets
    assert sum(target in targets for target in (arrival.target for arrival in work.upstream.log)) == 9


async def test_two_workers_and_a_change_of_hands_keep_the_order(work):
    """The origin has one owner at a time, and whoever follows goes on where the last one stopped."""
    targets = [f"/flaky/{n}?fail=1&code=500" for n in range(6)]
    numbers = await submit(work, *targets)
    async with work.service():
        await work.upstream.until(lambda up: len(up.log) == 3)
    async with work.service(), work.service():
        await work.upstream.until(lambda up: len(up.log) == 8)
    async with work.service():
        assert {(await work.end(each)).state for each in numbers} == {"completed"}
    assert in_turn(work) == targets


async def test_a_lane_that_becomes_ordered_at_work_is_so_for_all_that_was_not_sent(work):
    """What a worker has in hand goes back, and comes again in order."""
    first = await work.submit("/delay/200", lane="line")
    targets = [f"/ok/{n}" for n in range(5)]
    numbers = await submit(work, *targets, ordered=False)
    async with work.service(policy=Policy(concurrency=1)):
        await work.upstream.until(lambda up: len(up.log) == 1)
        await work.store.change_lane("line", ordered=True)
        assert {(await work.end(each)).state for each in (first, *numbers)} == {"completed"}
    assert in_turn(work) == ["/delay/200", *targets]
