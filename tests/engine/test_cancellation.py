"""Cancellation: whenever it comes, all that was held is given back, and at once. Virtual time."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

import pytest

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange
from comity.engine.hosts import Hosts
from comity.engine.limiter import Limiter
from comity.errors import QueueTimeout, RequestError
from comity.policy.backoff import Backoff
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.policy.units import NS, seconds
from comity.testing.virtual_clock import VirtualClock
from tests.engine.log import Log, idle
from tests.engine.scenarios import policy
from tests.engine.stepping import cancelled_at, settle

RETRY = Retry(attempts=3, backoff=Backoff(jitter=None))
OK = Outcome(status=200)


@pytest.fixture
def clock():
    return VirtualClock()


class Server:
    """Answers each send of a call from its script, after 100 ms."""

    def __init__(self, clock, *outcomes):
        self.clock, self.outcomes = clock, outcomes
        self.sends, self.starts = 0, []

    async def send(self, slot):
        await asyncio.sleep(0.02)
        slot.sent()
        self.sends += 1
        self.starts.append((self.clock.now() - NS) / NS)
        await asyncio.sleep(0.08)
        outcome = self.outcomes[min(slot.number, len(self.outcomes)) - 1]
        return Exchange(outcome=outcome, value=outcome.status)


def call(**options):
    return Call(**{"host": "api.example", "retry": RETRY, "idempotent": True, **options})


async def quiet_run(engine, server, **options):
    """Run a call and swallow its cancellation."""
    try:
        return (await engine.run(call(**options), server.send)).outcome.status
    except asyncio.CancelledError:
        return "cancelled"


def used(engine):
    """What the windows of the one host hold: reserved and started."""
    return [meter.used for meter in engine.hosts.gate("api.example").core.meters.each]


# At every await

CALL_STEPS = 9
"""The queue, three times connecting and in flight, and two waits between."""


@pytest.mark.parametrize("hold_slot", [False, True])
@pytest.mark.parametrize("refusal", [Outcome(status=503), Outcome(status=429, retry_after=seconds(2))])
@pytest.mark.parametrize("k", range(1, CALL_STEPS + 2))
def test_a_call_gives_back_everything_at_whichever_await_it_is_cancelled(clock, k, refusal, hold_slot):
    """CP-079 PF-026 PF-027: queue, connecting, in flight, backoff, pause; the next call starts at once."""
    engine = AsyncEngine(Hosts(policy(concurrency=1, rate="100/h", hold_slot=hold_slot), clock=clock))
    server, other = Server(clock, refusal, refusal, OK), Server(clock, OK)

    async def main():
        first = asyncio.create_task(quiet_run(engine, other))
        await settle()
        held = Retry(attempts=3, backoff=Backoff(jitter=None), hold_slot=hold_slot)
        victim = asyncio.create_task(cancelled_at(k, engine.run(call(retry=held), server.send)))
        await asyncio.wait([first, victim])
        assert first.result() == 200
        sent = server.sends
        stats = engine.stats()
        assert (stats.queued, stats.running) == (0, 0)
        assert used(engine) == [1 + sent]
        now = clock.now()
        hold = engine.hosts.gate("api.example").core.hold
        assert await quiet_run(engine, other) == 200
        assert other.starts[-1] == pytest.approx((max(now, hold) - NS) / NS + 0.02)
        return victim.cancelled(), sent

    cancelled, sent = clock.run(main())
    assert cancelled == (k <= CALL_STEPS)
    assert cancelled or sent == 3
    assert idle(engine)


@pytest.mark.parametrize("enter", ["with", "acquire", "run", "map"])
@pytest.mark.parametrize("k", range(1, 7))
def test_a_limiter_gives_back_everything_at_whichever_await_it_is_left(clock, k, enter):
    limiter, log = Limiter(1, rate="100/h", clock=clock), Log(clock)

    async def plainly():
        async with limiter:
            await log.work("victim")

    async def acquired():
        async with limiter.acquire(priority=0):
            await log.work("victim")

    async def mapped():
        async with aclosing(limiter.map(log.work, ["victim"] * 3)) as results:
            async for _ in results:
                pass

    ways = {"with": plainly, "acquire": acquired, "run": lambda: limiter.run(log.work, "victim"), "map": mapped}

    async def main():
        first = asyncio.create_task(limiter.run(log.work, "first"))
        await settle()
        victim = asyncio.create_task(cancelled_at(k, ways[enter]()))
        await asyncio.wait([first, victim])
        assert idle(limiter)
        assert limiter._core.meters.each[0].used == len(log.starts)
        now = log.now()
        await limiter.run(log.work, "next", 0)
        assert log.starts[-1] == ("next", now)
        return victim.cancelled()

    assert clock.run(main()) == (k <= (5 if enter == "map" else 2))


# At chosen moments


def test_a_grant_cancelled_before_its_task_ran_is_undone_and_goes_to_the_next(clock):
    limiter, log = Limiter(1, rate="100/h", clock=clock), Log(clock)

    async def main():
        async with limiter:
            victim = asyncio.create_task(limiter.run(log.work, "victim"))
            later = asyncio.create_task(limiter.run(log.work, "later"))
            await settle()
        assert limiter.stats().running == 1  # granted to the victim, which has not run yet
        victim.cancel()
        await asyncio.wait([victim, later])

    clock.run(main())
    assert log.starts == [("later", 0)]
    assert limiter._core.meters.each[0].used == 2
    assert idle(limiter)


def test_a_grant_to_a_task_that_was_cancelled_a_moment_before_goes_to_the_next(clock):
    limiter, log = Limiter(1, rate="100/h", clock=clock), Log(clock)

    async def main():
        async with limiter:
            victim = asyncio.create_task(limiter.run(log.work, "victim"))
            later = asyncio.create_task(limiter.run(log.work, "later"))
            await settle()
            victim.cancel()  # it has not run yet when the slot is given back
        await asyncio.wait([victim, later])
        return victim.cancelled()

    assert clock.run(main())
    assert log.starts == [("later", 0)]
    assert limiter._core.meters.each[0].used == 2
    assert idle(limiter)


def test_cancelled_before_it_began_it_sends_nothing(clock):
    """CP-079: 0 sends."""
    engine, server = AsyncEngine(Hosts(clock=clock)), Server(clock, OK)

    async def main():
        task = asyncio.create_task(engine.run(call(), server.send))
        task.cancel()
        await asyncio.wait([task])

    clock.run(main())
    assert server.sends == 0
    assert idle(engine)


def test_cancelled_in_flight_it_is_not_sent_again(clock):
    """CP-079: 1 send, and it is counted as cancelled."""
    engine, server = AsyncEngine(Hosts(clock=clock)), Server(clock, Outcome(status=500))

    async def main():
        task = asyncio.create_task(engine.run(call(), server.send))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(100)

    clock.run(main())
    host = engine.stats().hosts["api.example"]
    assert (server.sends, host.started, host.cancelled) == (1, 1, 1)
    assert idle(engine)


def test_a_queued_one_is_gone_at_once_and_the_others_keep_their_order(clock):
    limiter, log = Limiter(1, clock=clock), Log(clock)

    async def main():
        tasks = [asyncio.create_task(limiter.run(log.work, n)) for n in range(5)]
        await asyncio.sleep(0.5)
        tasks[2].cancel()
        await settle()
        assert (tasks[2].cancelled(), limiter.stats().queued) == (True, 3)
        await asyncio.wait(tasks)

    clock.run(main())
    assert [name for name, _ in log.starts] == [0, 1, 3, 4]


def test_nobody_waits_for_cancelled_waiters(clock):
    """CA-05: A at 0; B, C, D cancelled at 0.2 s; E, asked at 0.3 s, starts at 1.0 s."""
    limiter, log = Limiter(None, rate="1/s", clock=clock), Log(clock)

    async def main():
        tasks = [asyncio.create_task(limiter.run(log.work, name, 0)) for name in "ABCD"]
        await asyncio.sleep(0.2)
        for task in tasks[1:]:
            task.cancel()
        await asyncio.sleep(0.1)
        await limiter.run(log.work, "E", 0)

    clock.run(main())
    assert log.starts == [("A", 0), ("E", 1)]


def test_a_retry_wait_ends_at_once_and_other_hosts_go_on(clock):
    """CA-04 CP-079: cancelled 0.5 s into a Retry-After of a minute."""
    engine = AsyncEngine(Hosts(policy(concurrency=1, max_retry_after=120), clock=clock))
    refusing, server = Server(clock, Outcome(status=429, retry_after=seconds(60))), Server(clock, OK)

    async def main():
        task = asyncio.create_task(engine.run(call(), refusing.send))
        await asyncio.sleep(0.5)
        task.cancel()
        await settle()
        assert task.cancelled()
        await engine.run(call(host="other.example"), server.send)

    clock.run(main())
    assert (refusing.sends, server.starts) == (1, [0.52])
    assert idle(engine)


# At random


def test_calls_cancelled_at_random_leave_a_working_limiter(clock):
    """CA-01: twenty at a time through five slots, each cancelled after 0 to 60 ms, for 10 s."""
    limiter, log, chance = Limiter(5, clock=clock), Log(clock), random.Random(1)

    async def main():
        for _ in range(150):
            tasks = [asyncio.create_task(limiter.run(log.work, n, 0.05)) for n in range(20)]
            for task in tasks:
                asyncio.get_running_loop().call_later(chance.uniform(0, 0.06), task.cancel)
            await asyncio.wait(tasks)
        assert idle(limiter)
        began = log.now()
        await asyncio.gather(*(limiter.run(log.work, n, 0.05) for n in range(20)))
        return log.now() - began

    assert clock.run(main()) == pytest.approx(0.2)
    assert log.peak == 5


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_random_cancels_a_second_leave_a_working_engine(clock, seed):
    """CA-01: in the queue, just granted, connecting, in flight, in backoff and in a pause; two hosts under one bound."""
    chance = random.Random(seed)
    rules = policy(concurrency=4, rate=["200/s", "150/2s"], backoff=Backoff(base=0.05), refusals=3, max_retry_after=1)
    engine = AsyncEngine(Hosts(rules, max_connections=6, clock=clock), draw=chance.random)
    outcomes = [OK, OK, Outcome(status=500), Outcome(status=429, retry_after=seconds(0.2)), Outcome(failure="lost")]
    ends = []

    async def send(slot):
        await asyncio.sleep(chance.uniform(0, 0.01))
        slot.sent()
        await asyncio.sleep(chance.uniform(0, 0.05))
        slot.answered()
        outcome = chance.choice(outcomes)
        return Exchange(outcome=outcome, error=RequestError("lost") if outcome.failure else None)

    async def one():
        host = chance.choice(("a.example", "b.example"))
        deadline = clock.now() + seconds(chance.uniform(0.1, 3)) if chance.random() < 0.2 else None
        try:
            await engine.run(call(host=host, priority=chance.randrange(10), deadline=deadline), send)
            ends.append("settled")
        except RequestError:
            ends.append("refused")
        except asyncio.CancelledError:
            ends.append("cancelled")

    async def main():
        tasks = {}
        for _ in range(1_500):
            task = asyncio.create_task(one())
            tasks[task] = None
            task.add_done_callback(tasks.pop)
            await asyncio.sleep(chance.uniform(0, 0.015))
            if tasks and chance.random() < 0.8:
                chance.choice(list(tasks)).cancel()
        await asyncio.gather(*tasks)
        await asyncio.sleep(5)
        assert idle(engine)
        now = clock.now()
        settled = await engine.run(call(), Server(clock, OK).send)
        return settled.attempts[0].waited, clock.now() - now

    assert clock.run(main()) == (0, seconds(0.1))
    assert ends.count("cancelled") > 900
    assert ends.count("settled") > 100


@pytest.mark.parametrize("seed", range(3))
def test_a_soak_of_errors_timeouts_and_cancels_never_wedges(clock, seed):
    """DL-05: 5 000 calls through two slots and a short queue; while somebody waits, somebody runs."""
    chance = random.Random(seed)
    limiter = Limiter(2, max_queue=8, clock=clock)
    ends = []

    async def work():
        await asyncio.sleep(chance.expovariate(100))
        if chance.random() < 0.2:
            raise LookupError

    async def one():
        try:
            async with limiter.acquire(priority=chance.randrange(10), timeout=chance.choice((None, 0.05))):
                await work()
            ends.append("done")
        except (RequestError, LookupError, asyncio.CancelledError) as error:
            ends.append(type(error).__name__)

    async def main():
        tasks = []
        for _ in range(5_000):
            tasks.append(asyncio.create_task(one()))
            await asyncio.sleep(chance.expovariate(200))
            if chance.random() < 0.2:
                chance.choice(tasks[-20:]).cancel()
            stats = limiter.stats()
            assert stats.running == 2 or not stats.queued
        await asyncio.gather(*tasks)

    clock.run(main())
    assert len(ends) == 5_000
    assert {"done", "LookupError", "CancelledError", QueueTimeout.__name__, "QueueFull"} == set(ends)
    assert idle(limiter)
