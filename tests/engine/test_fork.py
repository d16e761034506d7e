"""Fork: a child process gets free limiters, whatever its parent's threads were doing; in processes of their own."""

from __future__ import annotations

import subprocess
import sys

BUSY = """
import os, threading
from comity.engine.hosts import Hosts
from comity.engine.limiter import Limiter
from comity.engine.thread_engine import ThreadEngine
from comity.engine.call import Call, Exchange
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry

limiter = Limiter(1, rate="100/h")
engine = ThreadEngine(Hosts(Policy(concurrency=1), max_connections=1))
never, ready = threading.Event(), threading.Barrier(5)

def send(slot, wait=True):
    slot.sent()
    if wait:
        ready.wait()
        never.wait()
    return Exchange(outcome=Outcome(status=200))

def run(wait):
    return engine.run(Call(host="api.example", retry=Retry()), lambda slot: send(slot, wait))

def hold():
    with limiter:
        ready.wait()
        never.wait()

def lock():
    with limiter._lock, engine.hosts._lock:
        ready.wait()
        never.wait()

def started(target, *arguments):
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread

started(hold), started(run, True)
while engine.stats().running + limiter.stats().running < 2:
    pass
started(limiter.call, print), started(run, False)
while engine.stats().queued + limiter.stats().queued < 2:
    pass
started(lock)
threading.Thread(target=ready.wait, daemon=True).start()
ready.wait()
"""

CHILD = """
child = os.fork()
if child == 0:
    assert (limiter.stats().queued, limiter.stats().running) == (0, 0)
    assert limiter.call(str.upper, "a") == "A"
    assert run(False).reason == "done"
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def runs(code):
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False).returncode


def test_a_child_waits_for_nobody_of_its_parent():
    """LF-03: slots held, waiters queued and locks taken in the parent's threads are nothing to the child."""
    assert runs(BUSY + CHILD) == 0


def test_a_closed_limiter_stays_closed_in_a_child():
    code = """
import os
from comity.engine.limiter import Limiter
from comity.errors import ClientClosed
limiter = Limiter()
limiter.close()
child = os.fork()
if child == 0:
    try:
        limiter.call(print)
    except ClientClosed:
        os._exit(0)
    os._exit(1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert runs(code) == 0


def test_an_entry_of_before_the_fork_takes_nothing_from_the_child_when_it_is_left():
    """LF-03"""
    code = """
import os
from comity.engine.limiter import Limiter
limiter = Limiter(2)
with limiter:
    child = os.fork()
    if child == 0:
        with limiter:
            assert limiter.stats().running == 1
assert limiter.stats().running == 0
if child == 0:
    try:
        limiter.__exit__(None, None, None)
    except RuntimeError:
        os._exit(0)
    os._exit(1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert runs(code) == 0


def test_a_permit_of_before_the_fork_can_be_left_though_its_lock_was_taken():
    """LF-03"""
    code = """
import os, threading
from comity.engine.limiter import Limiter
limiter = Limiter(2)
locked = threading.Event()
def lock():
    with limiter._lock:
        locked.set()
        threading.Event().wait()
with limiter.acquire():
    threading.Thread(target=lock, daemon=True).start()
    locked.wait()
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(limiter.stats().running)
"""
    assert runs(code) == 0
