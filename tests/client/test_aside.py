"""aside: work in a thread, which is over when the wait for it is."""

from __future__ import annotations

import asyncio
import threading

import pytest

from comity.client.aside import aside


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancel_waits_until_the_work_is_done(fails):
    begun, go, done = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go.wait()
        done.append(True)
        if fails:
            raise OSError("disk full")

    task = asyncio.create_task(aside(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]


async def test_what_the_work_raises_is_raised():
    def work() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await aside(work)
