"""Limiter.map: many items through a gate, in order and in bounded memory; virtual time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from comity.engine.limiter import Limiter
from comity.engine.mapping import AHEAD
from comity.testing.virtual_clock import VirtualClock
from tests.engine.log import Log, idle


@pytest.fixture
def clock():
    return VirtualClock()


async def collect(results, found):
    async for result in results:
        found.append(result)


def test_map_yields_in_order_and_a_slow_call_holds_back_only_so_many(clock):
    limiter, log = Limiter(2, clock=clock), Log(clock)

    async def main():
        return [
            (result, log.now()) async for result in limiter.map(lambda n: log.work(n, 100 if n == 0 else 1), range(40))
        ]

    results = clock.run(main())
    assert [result for result, _ in results] == list(range(40))
    started_behind_the_slow_one = [name for name, at in log.starts if at < 100]
    assert len(started_behind_the_slow_one) == 2 * AHEAD
    assert log.peak == 2


def test_map_reads_no_further_than_it_has_to(clock):
    limiter, log = Limiter(2, clock=clock), Log(clock)
    read = []

    def items():
        for n in range(10**9):
            read.append(n)
            yield n

    async def main():
        async with aclosing(limiter.map(log.work, items())) as results:
            async for result in results:
                if result == 5:
                    break

    clock.run(main())
    assert 2 * AHEAD < len(read) <= 2 * AHEAD + 6
    assert (log.live, idle(limiter)) == (0, True)


def test_map_yields_what_is_ready_while_the_next_item_is_still_to_come(clock):
    limiter, log = Limiter(clock=clock), Log(clock)

    async def items():
        for n in range(3):
            yield n
            await asyncio.sleep(60)

    async def main():
        return [(result, log.now()) async for result in limiter.map(log.work, items())]

    assert clock.run(main()) == [(0, 1), (1, 61), (2, 121)]


def test_map_feeds_itself(clock):
    """DL-06: items that depend on results do not stop it."""
    limiter = Limiter(1, clock=clock)

    async def main():
        queue = asyncio.Queue()
        queue.put_nowait(0)

        async def items():
            while (item := await queue.get()) is not None:
                yield item

        found = []
        async for result in limiter.map(lambda n: n + 1, items()):
            found.append(result)
            queue.put_nowait(result if result < 5 else None)
        return found

    assert clock.run(main()) == [1, 2, 3, 4, 5]


def test_map_raises_an_error_in_its_place_and_cancels_the_rest(clock):
    limiter, log = Limiter(2, clock=clock), Log(clock)

    async def work(n):
        if n == 3:
            raise LookupError(n)
        return await log.work(n)

    async def main():
        found = []
        with pytest.raises(LookupError):
            await collect(limiter.map(work, range(100)), found)
        return found

    assert clock.run(main()) == [0, 1, 2]
    assert (log.live, idle(limiter)) == (0, True)


def test_map_raises_what_reading_the_items_raised_after_the_results_before(clock):
    limiter, log = Limiter(2, clock=clock), Log(clock)

    def items():
        yield from range(3)
        raise LookupError("items")

    async def main():
        found = []
        with pytest.raises(LookupError, match="items"):
            await collect(limiter.map(log.work, items()), found)
        return found

    assert clock.run(main()) == [0, 1, 2]


def test_map_takes_sync_callables_and_no_items(clock):
    limiter = Limiter(clock=clock)

    async def main():
        return [n async for n in limiter.map(abs, [-1, -2])], [n async for n in limiter.map(abs, [])]

    assert clock.run(main()) == ([1, 2], [])


def test_map_keeps_within_a_short_queue(clock):
    limiter, log = Limiter(2, max_queue=1, clock=clock), Log(clock)

    async def main():
        return [n async for n in limiter.map(log.work, range(9))]

    assert clock.run(main()) == list(range(9))
