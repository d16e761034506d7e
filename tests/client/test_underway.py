"""Underway: waiting for the last send, whatever loop or thread it ends in."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from comity.client.underway import Underway


async def test_nothing_under_way_is_over_at_once():
    await Underway().over()


async def test_everybody_who_waits_goes_on_after_the_last_send():
    underway = Underway()
    underway.begin(1)
    underway.begin(2)
    waiting = [asyncio.create_task(underway.over()) for _ in range(3)]
    underway.end(1)
    done, _ = await asyncio.wait(waiting, timeout=0.02)
    assert not done
    underway.end(2)
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("round_", range(50))
async def test_a_last_send_that_ends_in_another_thread_at_the_same_moment_is_not_missed(round_):
    underway, together = Underway(), threading.Barrier(2)
    underway.begin(round_)

    def finish() -> None:
        together.wait()
        underway.end(round_)

    thread = threading.Thread(target=finish)
    thread.start()
    together.wait()
    async with asyncio.timeout(10):
        await underway.over()
    thread.join()


async def test_a_waiter_whose_loop_was_closed_does_not_disturb_the_others():
    underway = Underway()
    underway.begin(1)
    other = asyncio.new_event_loop()
    lost = other.create_task(underway.over())
    other.call_soon(other.stop)
    await asyncio.to_thread(other.run_forever)
    other.close()
    waiting = asyncio.create_task(underway.over())
    await asyncio.sleep(0)
    underway.end(1)
    await waiting
    lost._log_destroy_pending = False


FORKED = """
import asyncio, os, threading
from comity import AsyncClient
from comity.testing import Answer, ScriptedTransport

api = AsyncClient("http://api.example", transport=ScriptedTransport(Answer(after="1h")))
threading.Thread(target=lambda: asyncio.run(api.get("/x")), daemon=True).start()
while not api.stats().running or not api._dispatcher._underway._sends:
    pass
child = os.fork()
if child == 0:
    asyncio.run(asyncio.wait_for(api.aclose(), 20))
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_does_not_wait_for_the_sends_of_its_parent():
    """LF-03"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], timeout=60, check=False)
    assert ran.returncode == 0
