"""Supervisor: a part that fails is told and started anew, and one that goes on failing ends everything. Virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from comity.errors import StoreError
from comity.service.supervisor import Supervisor
from comity.testing.virtual_clock import VirtualClock


class Part:
    """Fails so many times, each time after so many seconds, and then is done."""

    def __init__(self, fails, after=0.0, error=OSError):
        self.fails, self.after, self.error, self.runs = fails, after, error, 0

    async def run(self):
        self.runs += 1
        await asyncio.sleep(self.after)
        if self.runs <= self.fails:
            raise self.error(f"failure {self.runs}")


async def forever():
    await asyncio.Event().wait()


def test_a_part_that_fails_is_told_and_started_anew(caplog):
    part = Part(fails=5)
    VirtualClock().run(Supervisor({"worker": part.run}).run())
    assert part.runs == 6
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 5
    assert "part worker failed and is started anew: failure 1" in caplog.text


def test_one_that_goes_on_failing_ends_the_others_loudly(caplog):
    part = Part(fails=99)
    with pytest.raises(ExceptionGroup) as caught:
        VirtualClock().run(Supervisor({"worker": part.run, "other": forever}).run())
    assert [str(each) for each in caught.value.exceptions] == ["failure 6"]
    assert caplog.records[-1].levelno == logging.CRITICAL


def test_failures_that_lie_apart_do_not_add_up():
    part = Part(fails=30, after=20.0)
    VirtualClock().run(Supervisor({"worker": part.run}).run())
    assert part.runs == 31


def test_an_outage_of_the_store_is_no_failure_however_long_it_lasts(caplog):
    """It is told once, or again when the part had worked in between."""
    part = Part(fails=1000, error=StoreError)
    VirtualClock().run(Supervisor({"worker": part.run}).run())
    assert part.runs == 1001
    assert [record.message for record in caplog.records] == ["part worker waits for the store: failure 1"]
    caplog.clear()
    VirtualClock().run(Supervisor({"worker": Part(fails=2, after=10.0, error=StoreError).run}).run())
    assert len(caplog.records) == 2
