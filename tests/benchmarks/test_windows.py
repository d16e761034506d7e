"""Windows: judging moments by a rate."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from benchmarks.windows import cycle, over


@pytest.mark.parametrize(
    ("moments", "windows"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 0, 0], 1),
        ([0, 0, 9], 1),
        ([0, 0, 10], 0),
        ([0, 5, 9, 14, 30], 2),
        ([30, 14, 9, 5, 0], 2),
    ],
)
def test_a_window_of_ten_holds_two(moments, windows):
    assert over(moments, 2, 10) == windows


@given(moments=st.lists(st.integers(0, 200), max_size=40), limit=st.integers(1, 6), per=st.integers(1, 60))
def test_windows_are_those_that_a_count_at_every_moment_finds(moments, limit, per):
    full = any(sum(start <= each < start + per for each in moments) > limit for start in moments)
    assert (over(moments, limit, per) > 0) is full


def test_places_in_step_use_each_other_after_the_cycle():
    assert cycle([0, 0, 0, 10, 10, 10, 20, 20, 20], 3) == 10


def test_a_late_start_in_each_round_lengthens_the_cycle():
    assert cycle([0, 0, 11, 11, 22, 22], 2) == 11


def test_evenly_spread_places_have_the_same_cycle_as_places_in_step():
    assert cycle([place * 5 + turn * 10 for turn in range(4) for place in (0, 1)], 2) == 10


@pytest.mark.parametrize("moments", [[], [0, 0], [0, 0, 10]])
def test_parts_of_a_cycle_are_refused(moments):
    with pytest.raises(ValueError, match="whole cycles"):
        cycle(moments, 2)
