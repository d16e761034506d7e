"""The clock of a store in this process."""

from __future__ import annotations

import sys
import time

import pytest

from comity.store.clock import steady, uptime


def test_a_wall_clock_that_is_set_changes_nothing():
    walls, uptimes = iter([5_000, 0]), iter([70, 71, 99])
    clock = steady(wall=walls.__next__, monotonic=uptimes.__next__)
    assert [clock(), clock()] == [5_001, 5_029]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has a clock of its own for it")
def test_time_goes_on_while_the_machine_sleeps():
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= uptime() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
