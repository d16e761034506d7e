"""Tally: what attempts came to only rises, whatever minutes are read again."""

from __future__ import annotations

from comity.policy.units import NS
from comity.store.records import Minute
from comity.web.tally import Tally, Total

MINUTE = 60 * NS
BEGAN = 1_000 * MINUTE


def minute(number, ok=0, failed=0, lane="a"):
    return Minute(
        lane=lane, began_at=BEGAN + number * MINUTE, attempts=ok + failed, ok=ok, refused=0, failed=failed, answered=ok,
        time_sum=ok * NS, time_min=None, time_max=None,
    )  # fmt: skip


def test_a_minute_counts_once_however_often_it_is_read_and_whatever_comes_to_it_meanwhile():
    tally = Tally()
    assert tally.add([minute(0, ok=1)], BEGAN + NS, ["a"])[0].ok == 1
    assert tally.add([minute(0, ok=2)], BEGAN + 2 * NS, ["a"])[0].ok == 2
    assert tally.since(BEGAN + MINUTE) == BEGAN  # a transaction may still add to the minute before
    assert tally.add([minute(0, ok=3), minute(1, ok=5)], BEGAN + MINUTE, ["a"])[0].ok == 8
    assert tally.add([minute(0, ok=3), minute(1, ok=5)], BEGAN + 3 * MINUTE, ["a"])[0].ok == 8
    assert tally.since(BEGAN + 3 * MINUTE) == BEGAN + 2 * MINUTE
    whole, lanes = tally.add([minute(2, failed=1)], BEGAN + 3 * MINUTE, ["a"])
    assert whole == lanes["a"] == Total(ok=8, failed=1, answered=8, time_sum=8 * NS)


def test_only_lanes_of_interest_are_kept():
    whole, lanes = Tally().add([minute(0, ok=1), minute(0, ok=2, lane="b")], BEGAN, ["b", "c"])
    assert (whole.ok, lanes["b"].ok, lanes["c"], set(lanes)) == (3, 2, Total(), {"b", "c"})


def test_what_nobody_read_for_an_hour_is_left_out():
    tally = Tally()
    tally.add([minute(0, ok=1)], BEGAN, [])
    assert tally.since(BEGAN + 600 * MINUTE) == BEGAN + 540 * MINUTE
    assert tally.add([minute(600, ok=1)], BEGAN + 600 * MINUTE, [])[0].ok == 2
