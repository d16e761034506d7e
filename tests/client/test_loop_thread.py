"""LoopThread: coroutines of any thread in one loop, and their end with it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from comity.client.loop_thread import LoopThread
from comity.client.stepping import finish
from comity.errors import ClientClosed


@pytest.fixture
def thread():
    thread = LoopThread("loop-under-test")
    yield thread
    thread.close()


async def name() -> str:
    return threading.current_thread().name


def test_results_and_errors_reach_the_caller(thread):
    async def fail() -> None:
        raise LookupError

    assert thread.run(name()) == "loop-under-test"
    with pytest.raises(LookupError):
        thread.run(fail())


def test_what_is_left_at_the_end_is_cancelled_and_its_callers_go_on(thread):
    begun = threading.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(thread.run, hang())
        begun.wait()
        thread.close()
        assert isinstance(waiting.exception(), ClientClosed)


def test_nothing_runs_after_the_end(thread):
    thread.run(name())
    thread.close()
    with pytest.raises(ClientClosed):
        thread.run(name())


def test_the_thread_does_not_wait_for_itself(thread):
    async def inner() -> None:
        thread.run(name())

    with pytest.raises(RuntimeError, match="its own thread"):
        thread.run(inner())


def test_a_coroutine_that_suspends_is_refused_instead_of_being_left_half_done():
    with pytest.raises(RuntimeError, match="event loop"):
        finish(asyncio.sleep(0))
