"""Limiter: at most so many callables at once, from tasks and threads; virtual time."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

import pytest

from comity.engine.limiter import Limiter
from comity.errors import ClientClosed, OptionsError, QueueFull, QueueTimeout
from comity.policy.rate import Rate
from comity.policy.units import NS
from comity.testing.virtual_clock import VirtualClock
from tests.engine.log import Log, idle


@pytest.fixture
def clock():
    return VirtualClock()


# The bounded queue


def test_at_most_so_many_run_at_once_and_results_come_in_submission_order(clock):
    """AR-001 AR-008 AR-010 AR-015: seven calls through three slots, gathered."""
    limiter, log = Limiter(3, clock=clock), Log(clock)

    async def main():
        return await asyncio.gather(*(limiter.run(log.work, n, 1 + n % 2) for n in range(7)))

    assert clock.run(main()) == list(range(7))
    assert log.peak == 3


def test_one_at_a_time(clock):
    """AR-002: with one slot each call starts when the one before has ended."""
    limiter, log = Limiter(1, clock=clock), Log(clock)

    async def main():
        await asyncio.gather(*(limiter.run(log.work, n) for n in range(3)))

    clock.run(main())
    assert log.starts == [(0, 0), (1, 1), (2, 2)]


def test_batches_are_gathered_one_after_the_other(clock):
    """AR-003: batches of two, the last one incomplete."""
    limiter, log = Limiter(2, clock=clock), Log(clock)

    async def main():
        return [
            await asyncio.gather(*(limiter.run(log.work, n) for n in range(at, min(at + 2, 5)))) for at in (0, 2, 4)
        ]

    assert clock.run(main()) == [[0, 1], [2, 3], [4]]
    assert log.now() == 3


def test_a_slow_call_holds_back_nobody(clock):
    """AR-004 AR-011: the next call starts as soon as one slot is free; with a free slot at once."""
    limiter, log = Limiter(2, clock=clock), Log(clock)

    async def main():
        await asyncio.gather(limiter.run(log.work, "slow", 10), *(limiter.run(log.work, n) for n in range(5)))

    clock.run(main())
    assert log.starts == [("slow", 0), (0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]


def test_calls_start_in_the_order_they_came(clock):
    """AR-009: first in, first out."""
    limiter, log = Limiter(2, clock=clock), Log(clock)

    async def main():
        await asyncio.gather(*(limiter.run(log.work, n, 0.1 * (n % 3)) for n in range(20)))

    clock.run(main())
    assert [name for name, _ in log.starts] == list(range(20))


def test_ten_slots_unless_said_otherwise(clock):
    """AR-006: the default."""
    limiter, log = Limiter(clock=clock), Log(clock)

    async def main():
        await asyncio.gather(*(limiter.run(log.work, n) for n in range(25)))

    clock.run(main())
    assert log.peak == 10
    assert limiter.stats().concurrency == 10


def test_arguments_or_a_thunk(clock):
    """AR-005 AR-007 AR-013: any callable, with arguments or without, sync or async; keyword names are all the caller's."""
    limiter, log = Limiter(clock=clock), Log(clock)

    async def main():
        return [
            await limiter.run(log.work, "arguments", takes=0.1),
            await limiter.run(lambda: log.work("thunk")),
            await limiter.run(str.upper, "sync"),
            await limiter.run(dict, call=1, self=2),
        ]

    assert clock.run(main()) == ["arguments", "thunk", "SYNC", {"call": 1, "self": 2}]


def test_query_strings_are_the_callers_to_encode(clock):
    """AR-016: a bounded call passes its arguments through untouched, so an encoded query arrives encoded."""
    limiter = Limiter(clock=clock)
    query = urlencode({"q": "a b&c", "e": "é"})
    assert clock.run(limiter.run("https://api.example/?{}".format, query)) == "https://api.example/?q=a+b%26c&e=%C3%A9"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_error_goes_to_its_caller_alone_and_frees_the_slot(clock, kind):
    """AR-012 DL-03: the second of five raises before it returns; the other four are done."""
    limiter, log = Limiter(1, clock=clock), Log(clock)

    def fails():
        raise LookupError("second")

    async def fails_later():
        await asyncio.sleep(0.1)
        fails()

    async def main():
        calls = [limiter.run(log.work, n, 0.1) for n in range(5)]
        calls[1].close()
        calls[1] = limiter.run(fails if kind == "sync" else fails_later)
        return await asyncio.gather(*calls, return_exceptions=True)

    results = clock.run(main())
    assert [results[0], *results[2:]] == [0, 2, 3, 4]
    assert isinstance(results[1], LookupError)
    assert idle(limiter)


def test_stats_tell_who_waits_and_who_runs(clock):
    """AR-014: queue size and active count."""
    limiter, log = Limiter(2, clock=clock), Log(clock)

    async def main():
        tasks = [asyncio.create_task(limiter.run(log.work, n)) for n in range(5)]
        await asyncio.sleep(0.5)
        stats = limiter.stats()
        await asyncio.gather(*tasks)
        return stats.queued, stats.running, stats.concurrency

    assert clock.run(main()) == (3, 2, 2)
    assert idle(limiter)


def test_without_a_limit_stats_say_none(clock):
    assert Limiter(None, clock=clock).stats().concurrency is None


# Context managers, in tasks and threads


def test_the_same_limiter_serves_tasks_and_threads(clock):
    limiter, log = Limiter(1, rate="1/s", clock=clock), Log(clock)

    async def task():
        for n in range(3):
            async with limiter:
                log.starts.append((f"task {n}", log.now()))

    def thread():
        for n in range(3):
            with limiter:
                log.starts.append((f"thread {n}", log.now()))

    clock.run_threads(lambda: clock.run(task()), thread)
    assert [at for _, at in log.starts] == [0, 1, 2, 3, 4, 5]
    assert idle(limiter)


def test_call_blocks_the_thread_until_its_turn(clock):
    limiter, log = Limiter(1, clock=clock), Log(clock)
    calls = [lambda n=n: limiter.call(log.sync_work, n, takes=2) for n in range(3)]
    assert sorted(clock.run_threads(*calls)) == [0, 1, 2]
    assert [at for _, at in log.starts] == [0, 2, 4]


def test_acquire_takes_a_priority_and_a_cost(clock):
    limiter, log = Limiter(1, rate="100 tokens/min", clock=clock), Log(clock)

    async def take(name, **options):
        async with limiter.acquire(**options):
            await log.work(name)

    async def main():
        await asyncio.gather(
            take("first", cost={"tokens": 80}),
            take("late", priority=9),
            take("big", cost={"tokens": 30}),
            take("urgent", priority=0, cost={"tokens": 20}),
        )

    clock.run(main())
    assert log.starts == [("first", 0), ("urgent", 1), ("big", 60), ("late", 61)]


def test_settle_corrects_the_estimate_at_its_start(clock):
    limiter, log = Limiter(None, rate="100 tokens/min", clock=clock), Log(clock)

    async def main():
        async with limiter.acquire(cost={"tokens": 90}) as permit:
            await asyncio.sleep(10)
            permit.settle({"tokens": 40})
        async with limiter.acquire(cost={"tokens": 60}) as permit:
            log.starts.append(("fits", log.now()))
            permit.settle({"tokens": 160})
        async with limiter.acquire(cost={"tokens": 100}):
            log.starts.append(("after the overdraft", log.now()))

    clock.run(main())
    assert log.starts == [("fits", 10), ("after the overdraft", 70)]


def test_settle_works_in_a_thread_too(clock):
    limiter, log = Limiter(None, rate="100 tokens/min", clock=clock), Log(clock)

    def thread():
        with limiter.acquire(cost={"tokens": 90}) as permit:
            permit.settle({"tokens": 40})
        with limiter.acquire(cost={"tokens": 60}):
            return log.now()

    assert clock.run_threads(thread) == [0]


def test_settling_a_permit_that_was_never_entered_changes_nothing(clock):
    limiter = Limiter(None, rate="100 tokens/min", clock=clock)
    limiter.acquire(cost={"tokens": 1}).settle({"tokens": 100})

    async def main():
        async with limiter.acquire(cost={"tokens": 100}):
            return clock.now()

    assert clock.run(main()) == NS


def test_a_permit_may_be_used_again_but_not_twice_at_once(clock):
    limiter = Limiter(1, clock=clock)
    permit = limiter.acquire()

    async def main():
        async with permit:
            pass
        async with permit:
            with pytest.raises(RuntimeError, match="in use"):
                await permit.__aenter__()

    clock.run(main())
    assert idle(limiter)


def test_a_callable_measured_at_the_server_counts_from_its_end(clock):
    limiter, log = Limiter(rate=Rate(1, 10, measured="server"), clock=clock), Log(clock)

    async def main():
        await limiter.run(log.work, 0, 3)
        async with limiter.acquire():
            await log.work(1, 2)
        async with limiter:
            await log.work(2)

    clock.run(main())
    assert log.starts == [(0, 0), (1, 13), (2, 25)]


def test_a_least_gap(clock):
    limiter, log = Limiter(min_gap="250ms", clock=clock), Log(clock)

    async def main():
        await asyncio.gather(*(limiter.run(log.work, n) for n in range(4)))

    clock.run(main())
    assert [at for _, at in log.starts] == [0, 0.25, 0.5, 0.75]


# Limits of waiting


@pytest.mark.parametrize("priority", [-1, 10, 2.5, "high", True])
def test_a_priority_outside_0_to_9_is_refused_when_it_is_given(clock, priority):
    """PR-03: nothing is queued, and the next one works."""
    limiter = Limiter(1, clock=clock)
    with pytest.raises(OptionsError, match=r"0.*9"):
        limiter.acquire(priority=priority)
    assert idle(limiter)
    assert clock.run(limiter.run(int, "1")) == 1


def test_a_cost_above_its_limit_is_refused_when_it_is_given(clock):
    limiter = Limiter(rate="100 tokens/min", clock=clock)
    with pytest.raises(OptionsError, match=r"at most 100 \(tokens\)"):
        limiter.acquire(cost={"tokens": 101})


def test_an_available_permit_is_granted_at_any_rate_and_the_next_is_told_the_wait(clock):
    """LA-08: 1 per 10 000 s; the message names what would be needed."""
    limiter = Limiter(rate="1/10000s", clock=clock)

    async def main():
        async with limiter:
            pass
        async with limiter.acquire(timeout="200ms"):
            pass

    with pytest.raises(QueueTimeout, match=r"no turn within 0\.2 s.* in 9999\.8 s; it was not sent") as caught:
        clock.run(main())
    assert (caught.value.waited, caught.value.needed) == (0.2, 9999.8)
    assert idle(limiter)


def test_a_permit_that_waited_too_long_can_be_tried_again(clock):
    limiter = Limiter(1, rate="1/s", clock=clock)
    permit = limiter.acquire(timeout=0.6)

    async def main():
        async with limiter:
            pass
        with pytest.raises(QueueTimeout):
            await permit.__aenter__()
        async with permit:
            return clock.now() - NS

    assert clock.run(main()) == NS


def test_queue_timeout_holds_for_every_entry(clock):
    limiter, log = Limiter(1, queue_timeout=0.5, clock=clock), Log(clock)

    async def main():
        return await asyncio.gather(
            limiter.run(log.work, 0), limiter.run(log.work, 1), limiter.run(log.work, 2), return_exceptions=True
        )

    results = clock.run(main())
    assert [type(result).__name__ for result in results] == ["int", "QueueTimeout", "QueueTimeout"]
    assert idle(limiter)


def test_a_full_queue_refuses_at_once(clock):
    """UQ-01: queued never passes the bound, however many come."""
    limiter, log = Limiter(1, max_queue=3, clock=clock), Log(clock)

    async def main():
        return await asyncio.gather(*(limiter.run(log.work, n) for n in range(10)), return_exceptions=True)

    results = clock.run(main())
    assert results[:4] == [0, 1, 2, 3]
    assert all(isinstance(result, QueueFull) for result in results[4:])
    assert "max_queue=3" in str(results[4])
    assert idle(limiter)


def test_follow_up_work_into_a_full_queue_does_not_stop_it(clock):
    """DL-06: each of ten results submits one more and waits for it: done, or refused, and never stuck."""
    limiter, log = Limiter(2, max_queue=4, clock=clock), Log(clock)

    async def producer(n):
        await limiter.run(log.work, n)
        await limiter.run(log.work, n + 100)

    async def main():
        return await asyncio.gather(*(producer(n) for n in range(10)), return_exceptions=True)

    results = clock.run(main())
    assert all(result is None or isinstance(result, QueueFull) for result in results)
    assert results[:2] == [None, None]
    assert idle(limiter)


def test_a_nested_call_into_the_last_slot_ends_by_the_queue_timeout(clock):
    """DL-01: a call that waits for the slot it holds itself is told so when its time is up; nothing stays behind."""
    limiter = Limiter(1, queue_timeout=2, clock=clock)

    async def outer():
        return await limiter.run(int, "1")

    with pytest.raises(QueueTimeout):
        clock.run(limiter.run(outer))
    assert idle(limiter)


@pytest.mark.parametrize("rate", [None, "100/s", Rate(100, 1, measured="server")])
def test_closing_refuses_who_waits_and_who_comes_while_who_runs_finishes(clock, rate):
    limiter, log = Limiter(1, rate=rate, clock=clock), Log(clock)

    async def main():
        tasks = [asyncio.create_task(limiter.run(log.work, n)) for n in range(3)]
        await asyncio.sleep(0.5)
        limiter.close()
        limiter.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(ClientClosed, match="not sent"):
            async with limiter:
                pass
        with pytest.raises(ClientClosed), limiter:
            pass
        return results

    results = clock.run(main())
    assert results[0] == 0
    assert [type(result) for result in results[1:]] == [ClientClosed, ClientClosed]
    assert idle(limiter)


# Exactness and thrift


@pytest.mark.parametrize(("count", "per", "n"), [(1999, 1, 10_000), (7, 10, 20)])
def test_odd_rates_keep_their_pace_with_few_wakeups(clock, count, per, n, monkeypatch):
    """LA-07: the long-run rate within 1 %, and at most 2 wake-ups per acquisition."""
    limiter = Limiter(None, rate=Rate(count, per, spread=True), clock=clock)
    wakeups = 0
    step = limiter._gate.step

    def counted(*args):
        nonlocal wakeups
        wakeups += 1
        return step(*args)

    monkeypatch.setattr(limiter._gate, "step", counted)

    async def main():
        for _ in range(n):
            async with limiter:
                pass

    clock.run(main())
    elapsed = (clock.now() - NS) / NS
    assert elapsed == pytest.approx((n - 1) * per / count, rel=0.01)
    assert wakeups <= 4 * n  # the start and the end of each are steps too


def test_setting_the_wall_clock_changes_no_wait(clock):
    """CK-01: an hour back and forth in the midst of it."""
    limiter, log = Limiter(None, rate="5/s", clock=clock), Log(clock)

    async def jumps():
        for by in (-3600, 7200, -86_400):
            await asyncio.sleep(0.7)
            clock.set_wall(by)

    async def main():
        await asyncio.gather(jumps(), *(limiter.run(log.work, n, 0) for n in range(20)))

    clock.run(main())
    assert [at for _, at in log.starts] == [n // 5 for n in range(20)]


def test_a_misspelt_option_is_told_with_the_one_that_was_meant():
    with pytest.raises(OptionsError, match="Limiter has no such option; did you mean concurrency"):
        Limiter(concurency=3)


def test_a_rate_in_the_place_of_the_concurrency_is_told_where_it_belongs():
    with pytest.raises(OptionsError, match="for a rate say rate='50/5s'"):
        Limiter("50/5s")


def test_leaving_more_often_than_entering_is_refused_and_raises_no_limit():
    limiter = Limiter(1)
    with limiter:
        pass
    with pytest.raises(RuntimeError, match="more often"):
        limiter.__exit__(None, None, None)
    with limiter:
        assert limiter.stats().running == 1


async def test_leaving_more_often_than_entering_is_refused_in_a_loop_too():
    limiter = Limiter(1, rate="100/min", min_gap=0)
    async with limiter:
        pass
    with pytest.raises(RuntimeError, match="more often"):
        await limiter.__aexit__(None, None, None)
    assert limiter.stats().running == 0
