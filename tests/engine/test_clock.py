"""Clock: the real one. Its waits are bounded by events, not by guesses about the machine."""

from __future__ import annotations

import threading
import time

import pytest

from comity.engine.clock import MONOTONIC

GENEROUS = 30


def test_now_is_monotonic_and_wall_is_the_time_of_day():
    assert MONOTONIC.now() <= time.monotonic_ns() <= MONOTONIC.now()
    assert MONOTONIC.wall() <= time.time_ns() <= MONOTONIC.wall()


def test_a_wait_ends_no_earlier_than_its_time():
    until = MONOTONIC.now() + 2_000_000
    MONOTONIC.signal().wait(until)
    assert MONOTONIC.now() >= until


def test_a_time_that_has_passed_is_not_waited_for():
    MONOTONIC.signal().wait(MONOTONIC.now() - 1)


def test_a_signal_set_before_the_wait_ends_it():
    """Set twice is set once; it is gone after the wait, or after clear."""
    waited = MONOTONIC.signal()
    waited.set()
    waited.set()
    waited.wait(None)
    waited.set()
    waited.clear()
    until = MONOTONIC.now() + 1_000_000
    waited.wait(until)
    assert MONOTONIC.now() >= until


@pytest.mark.parametrize("until", [None, 1 << 62])
def test_a_signal_from_another_thread_ends_a_wait_without_end(until):
    waited, over = MONOTONIC.signal(), threading.Event()

    def wait():
        waited.wait(until)
        over.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert not over.is_set()
    waited.set()
    assert over.wait(GENEROUS)
