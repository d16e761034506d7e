"""VirtualClock: time passes when everybody waits, and only then."""

from __future__ import annotations

import asyncio
import threading

import pytest

from comity.engine.limiter import Limiter
from comity.policy.units import NS
from comity.testing import VirtualClock
from comity.testing.virtual_clock import EPOCH


@pytest.fixture
def clock():
    return VirtualClock()


def elapsed(clock):
    return (clock.now() - NS) / NS


def sleep(clock, seconds):
    clock.signal().wait(clock.now() + round(seconds * NS))


# By hand


def test_time_moves_by_hand_and_never_back(clock):
    clock.advance(1.5)
    clock.advance("500ms")
    assert elapsed(clock) == 2
    clock.move_to(0)
    assert elapsed(clock) == 2


def test_setting_the_wall_clock_leaves_time_alone(clock):
    """CK-01: an hour back."""
    assert clock.wall() == EPOCH
    clock.set_wall(-3600)
    assert (clock.wall(), elapsed(clock)) == (EPOCH - 3600 * NS, 0)
    clock.advance(1)
    assert clock.wall() == EPOCH - 3599 * NS


def test_a_lone_thread_waits_in_no_time(clock):
    sleep(clock, 86_400)
    assert elapsed(clock) == 86_400


# Loops


def test_a_day_of_sleep_takes_no_time_and_ends_on_the_nanosecond(clock):
    async def main():
        await asyncio.sleep(86_400)
        await asyncio.sleep(1e-9)
        return clock.now() - NS

    assert clock.run(main()) == 86_400 * NS + 1


def test_sleeping_tasks_wake_in_the_order_of_their_times(clock):
    order = []

    async def one(seconds):
        await asyncio.sleep(seconds)
        order.append((seconds, elapsed(clock)))

    async def main():
        await asyncio.gather(one(3), one(1), one(2))

    clock.run(main())
    assert order == [(1, 1), (2, 2), (3, 3)]


def test_time_stands_still_while_a_task_can_run(clock):
    async def main():
        sleeper = asyncio.create_task(asyncio.sleep(1))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert not sleeper.done()
        return elapsed(clock)

    assert clock.run(main()) == 0


def test_a_timeout_of_the_loop_is_in_virtual_time(clock):
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return elapsed(clock)

    assert clock.run(main()) == 3600


def test_a_task_that_nothing_would_wake_is_an_error_and_no_hang(clock):
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing would ever happen"):
        clock.run(main())
    assert clock.run(asyncio.sleep(1, "and works afterwards")) == "and works afterwards"


def test_an_error_of_the_coroutine_is_raised(clock):
    async def main():
        raise LookupError

    with pytest.raises(LookupError):
        clock.run(main())


# Threads


def test_time_passes_when_every_thread_waits(clock):
    def one(seconds):
        sleep(clock, seconds)
        return elapsed(clock)

    assert clock.run_threads(lambda: one(3), lambda: one(1), lambda: one(2)) == [3, 1, 2]


def test_time_stands_still_while_a_thread_runs(clock):
    looked = threading.Event()

    def waits():
        sleep(clock, 1)
        return looked.is_set()

    def works():
        for _ in range(1_000):
            assert elapsed(clock) == 0
        looked.set()

    assert clock.run_threads(waits, works)[0]


def test_one_thread_wakes_another(clock):
    signal = clock.signal()

    def waits():
        signal.wait(clock.now() + 100 * NS)
        return elapsed(clock)

    def wakes():
        sleep(clock, 5)
        signal.set()

    assert clock.run_threads(waits, wakes) == [5, None]


def test_a_signal_stays_set_until_it_is_cleared(clock):
    signal = clock.signal()
    signal.set()
    signal.wait(None)
    signal.clear()
    signal.wait(clock.now() + NS)
    assert elapsed(clock) == 1


def test_advancing_by_hand_wakes_who_waits(clock):
    waiting = threading.Event()

    def waits():
        waiting.set()
        sleep(clock, 5)
        return elapsed(clock) >= 5

    def advances():
        waiting.wait()
        clock.advance(7)

    assert clock.run_threads(waits, advances)[0]


def test_threads_that_nothing_would_wake_are_an_error_and_no_hang(clock):
    def one():
        clock.signal().wait(None)

    with pytest.raises(RuntimeError, match="nothing would ever happen"):
        clock.run_threads(one, one)
    assert clock.run_threads(lambda: sleep(clock, 1) or elapsed(clock)) == [1]


def test_the_last_thread_to_end_leaves_the_others_stuck_or_free(clock):
    """A thread that ends counts no longer: what the others wait for comes, or never will."""
    with pytest.raises(RuntimeError, match="nothing would ever happen"):
        clock.run_threads(lambda: clock.signal().wait(None), lambda: None)
    assert clock.run_threads(lambda: sleep(clock, 1) or "free", lambda: None) == ["free", None]


def test_an_error_in_a_thread_is_raised_by_the_one_who_ran_it(clock):
    def fails():
        raise LookupError

    with pytest.raises(LookupError):
        clock.run_threads(fails, lambda: sleep(clock, 1))


def test_a_deadlock_of_threads_on_a_limiter_is_found(clock):
    limiter = Limiter(1, clock=clock)

    def nested():
        with limiter, limiter:
            pytest.fail("nobody gave the first one back")

    with pytest.raises(RuntimeError, match="nothing would ever happen"):
        clock.run_threads(nested)
    assert (limiter.stats().queued, limiter.stats().running) == (0, 0)


# Both


def test_loops_in_threads_share_the_time(clock):
    async def main(seconds):
        await asyncio.sleep(seconds)
        return elapsed(clock)

    def thread():
        sleep(clock, 2)
        return elapsed(clock)

    loops = [lambda n=n: clock.run(main(n)) for n in (3, 1)]
    assert clock.run_threads(*loops, thread) == [3, 1, 2]


def test_a_thread_wakes_a_loop_that_waits_for_nothing_else(clock):
    started = threading.Event()
    found = {}

    async def main():
        loop = asyncio.get_running_loop()
        found["future"] = loop.create_future(), loop
        started.set()
        return await found["future"][0], elapsed(clock)

    def thread():
        started.wait()
        sleep(clock, 4)
        future, loop = found["future"]
        loop.call_soon_threadsafe(future.set_result, "woken")

    assert clock.run_threads(lambda: clock.run(main()), thread) == [("woken", 4), None]


def test_a_loop_and_a_thread_that_wait_for_each_other_are_an_error_and_no_hang(clock):
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing would ever happen"):
        clock.run_threads(lambda: clock.run(main()), lambda: clock.signal().wait(None))
