"""Gate: event loops that come, go, are closed in the midst of it or forget their tasks; real time, bounded by events."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import deque

import pytest

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange
from comity.engine.clock import MONOTONIC
from comity.engine.hosts import Hosts
from comity.engine.limiter import Limiter
from comity.policy.backoff import Backoff
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.policy.units import NS
from comity.testing.virtual_clock import VirtualClock, VirtualLoop
from tests.engine.log import idle
from tests.engine.stepping import settle

GENEROUS = 30
"""Seconds; a hang, not a slow machine, takes longer."""


class Gc:
    """A clock that collects garbage when it is read next, which is under the lock."""

    on = False
    wall = staticmethod(MONOTONIC.wall)
    signal = staticmethod(MONOTONIC.signal)

    def now(self):
        if self.on:
            self.on = False
            gc.collect()
        return MONOTONIC.now()


def abandoned(main):
    """Run `main` on a loop, then close the loop with its tasks still pending, and return the loop."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main)
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending": that is the point here
    loop.close()
    return loop


def leave(coroutine):
    """Start a task and keep no reference to it."""
    asyncio.ensure_future(coroutine)  # noqa: RUF006 - that is the point here


def takes_its_turn(limiter):
    """Whether a thread gets through the limiter."""
    through = threading.Event()

    def enter():
        with limiter:
            through.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(GENEROUS)
    return through.is_set()


def test_a_limiter_serves_one_loop_after_the_other():
    """LF-01: three times asyncio.run with one Limiter, contended each time."""
    limiter = Limiter(1)

    async def main():
        return await asyncio.gather(*(limiter.run(asyncio.sleep, 0, n) for n in range(3)))

    assert [asyncio.run(main()) for _ in range(3)] == [[0, 1, 2]] * 3
    assert idle(limiter)
    assert len(limiter._gate._alarms) == 1  # closed loops are forgotten


def test_an_engine_serves_one_loop_after_the_other():
    """LF-01: three times asyncio.run with one engine."""
    engine = AsyncEngine(Hosts())

    async def send(slot):
        slot.sent()
        return Exchange(outcome=Outcome(status=200))

    async def main():
        call = Call(host="api.example", retry=Retry())
        return [each.reason for each in await asyncio.gather(*(engine.run(call, send) for _ in range(20)))]

    assert [asyncio.run(main()) for _ in range(3)] == [["done"] * 20] * 3
    assert idle(engine)


def test_other_tasks_run_while_a_retry_waits():
    """LF-05: a ticker of 10 ms ticks through a wait of a second."""
    clock = VirtualClock()
    engine = AsyncEngine(Hosts(clock=clock))
    ticks = 0

    async def send(slot):
        return Exchange(outcome=Outcome(status=503 if slot.number == 1 else 200, retry_after=NS))

    async def ticker():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def main():
        task = asyncio.create_task(ticker())
        await engine.run(Call(host="api.example", retry=Retry(), idempotent=True), send)
        task.cancel()

    clock.run(main())
    assert 90 <= ticks <= 101


def test_a_waiter_whose_loop_was_closed_is_skipped():
    limiter = Limiter(1)

    async def wait():
        async with limiter:
            pytest.fail("its loop is closed")

    async def main():
        tasks.append(asyncio.ensure_future(wait()))
        await settle()

    tasks = []
    with limiter:
        abandoned(main())
        assert limiter.stats().queued == 1
    assert takes_its_turn(limiter)
    assert idle(limiter)


@pytest.mark.parametrize("phase", ["waiting", "granted", "running"])
def test_a_forgotten_task_gives_back_what_it_holds_when_it_is_destroyed(phase):
    limiter = Limiter(1)

    async def hold():
        async with limiter:
            await asyncio.sleep(3600)

    async def main():
        if phase == "running":
            leave(hold())
            await settle()
            return
        async with limiter:
            leave(hold())
            await settle()
            if phase == "waiting":
                leave(hold())
                await settle()

    abandoned(main())
    assert limiter.stats().running == 1
    gc.collect()
    assert takes_its_turn(limiter)
    assert idle(limiter)


def forget_one(limiter_or_engine, hold):
    """Leave a task in a closed loop, so that it goes away with the next collection of garbage."""

    async def main():
        leave(hold())
        await settle()

    gc.disable()
    try:
        abandoned(main())
        assert not idle(limiter_or_engine)
    finally:
        gc.enable()


@pytest.mark.parametrize("way", ["with", "acquire"])
def test_a_destructor_that_runs_under_the_lock_does_not_wait_for_it(way):
    clock = Gc()
    limiter = Limiter(1, clock=clock)

    async def hold():
        async with limiter if way == "with" else limiter.acquire():
            await asyncio.sleep(3600)

    forget_one(limiter, hold)
    clock.on = True
    assert takes_its_turn(limiter)
    assert idle(limiter)


def test_a_waiting_task_that_is_destroyed_under_the_lock_leaves_the_queue():
    clock = Gc()
    limiter = Limiter(1, clock=clock)

    async def wait():
        async with limiter:
            pytest.fail("nobody drives it")

    with limiter:
        forget_one(limiter, wait)
        clock.on = True
    assert takes_its_turn(limiter)
    assert idle(limiter)


def test_a_call_that_is_destroyed_under_the_lock_gives_back_its_slot():
    clock = Gc()
    hosts = Hosts(clock=clock)
    engine = AsyncEngine(hosts)

    async def send(slot):
        slot.sent()
        await asyncio.sleep(3600)

    forget_one(engine, lambda: engine.run(Call(host="api.example", retry=Retry()), send))
    clock.on = True
    gate = hosts.gate("api.example")
    given_back = threading.Event()
    for _ in range(GENEROUS * 100):  # a thread of its own does it
        if idle(engine) and gate.calls == 1:
            given_back.set()
            break
        given_back.wait(0.01)
    assert given_back.is_set()


def test_a_retry_whose_loop_was_closed_gives_back_its_slot_when_its_time_comes():
    clock = VirtualClock()
    engine = AsyncEngine(Hosts(Policy(concurrency=1), clock=clock))
    retry = Retry(backoff=Backoff(base=50, jitter=None), hold_slot=True)

    async def fail(slot):
        slot.sent()
        return Exchange(outcome=Outcome(status=500))

    async def succeed(slot):
        slot.sent()
        return Exchange(outcome=Outcome(status=200))

    loop = VirtualLoop(clock)
    task = loop.create_task(engine.run(Call(host="api.example", retry=retry, idempotent=True), fail))
    for _ in range(3):
        loop.run_until_complete(_turn())
    assert (engine.stats().queued, engine.stats().running) == (1, 1)
    loop.close()
    assert clock.run(engine.run(Call(host="api.example", retry=Retry()), succeed)).reason == "done"
    assert idle(engine)
    del task


async def _turn():
    await asyncio.sleep(0)


def test_an_alarm_that_goes_off_early_is_set_again():
    """A timer may be early; who waits for a retry, with nobody in line, must not be forgotten by it."""
    clock = VirtualClock()
    hosts = Hosts(Policy(retry=Retry(backoff=Backoff(base=50, jitter=None))), clock=clock)
    engine = AsyncEngine(hosts)

    async def send(slot):
        slot.sent()
        return Exchange(outcome=Outcome(status=500 if slot.number == 1 else 200))

    async def main():
        call = Call(host="api.example", retry=hosts.rules.default.retry, idempotent=True)
        task = asyncio.create_task(engine.run(call, send))
        await asyncio.sleep(1)
        (alarm,) = hosts.gate("api.example")._alarms.values()
        alarm._fire()
        return await task

    assert clock.run(main()).reason == "done"


def test_leaving_an_async_generator_gives_back_at_once():
    """A GeneratorExit that comes from `aclose` and not from a destructor."""
    clock = VirtualClock()
    limiter = Limiter(1, clock=clock)

    async def pages():
        async with limiter:
            yield 1

    async def main():
        generator = pages()
        await anext(generator)
        await generator.aclose()
        async with limiter:
            return clock.now()

    assert clock.run(main()) == NS


class Starts(deque):
    """The starts that a window keeps, and all that it ever kept."""

    def __init__(self):
        super().__init__()
        self.all = []

    def append(self, at):
        self.all.append(at)
        super().append(at)


@pytest.mark.parametrize("seed", range(4))
def test_loops_and_threads_share_a_limiter_while_one_loop_is_closed(seed):
    """TH-01: two loops and three threads; nobody sleeps for ever, no window is broken, one loop dies in the middle."""
    limit, per, each = 20, 50_000_000, 120
    limiter, chance = Limiter(4, rate=f"{limit}/50ms"), random.Random(seed)
    starts = limiter._core.meters.each[0].times = Starts()
    entered = []

    async def use(n):
        async with limiter:
            entered.append(MONOTONIC.now())
            await asyncio.sleep(n % 3 / 1000)

    async def live():
        await asyncio.gather(*(use(n) for n in range(each)))

    def doomed():
        async def main():
            for n in range(200):
                leave(use(n))
            await asyncio.sleep(chance.uniform(0.02, 0.2))

        abandoned(main())
        for _ in range(10):  # a collection that is under way already makes a call of it do nothing
            gc.collect()

    def thread():
        for _ in range(each):
            with limiter:
                entered.append(MONOTONIC.now())

    targets = (thread, thread, thread, doomed, lambda: asyncio.run(live()))
    workers = [threading.Thread(target=target, daemon=True) for target in targets]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(GENEROUS)
    assert not any(worker.is_alive() for worker in workers)
    assert takes_its_turn(limiter)
    assert idle(limiter)
    assert 4 * each <= len(entered) < 4 * each + 200
    assert len(starts.all) == len(entered) + 1
    assert all(beyond - first >= per for first, beyond in zip(starts.all, starts.all[limit:], strict=False))
    assert all(start <= seen for start, seen in zip(starts.all, sorted(entered), strict=False))
