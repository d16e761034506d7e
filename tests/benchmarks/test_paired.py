"""Paired comparison: the figures that `make bench` prints."""

from __future__ import annotations

import gc
from itertools import count
from math import comb

import pytest
from hypothesis import given, strategies as st

from benchmarks.paired import Figure, interleave, uncollected


@pytest.mark.parametrize(("samples", "outside"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (12, 2), (25, 7), (41, 13)])
def test_the_interval_leaves_out_the_ranks_of_the_sign_test(samples, outside):
    figure = Figure.of(range(samples))
    assert (figure.low, figure.high) == (outside, samples - 1 - outside)


@given(samples=st.integers(6, 200))
def test_the_interval_is_the_narrowest_that_holds_the_median_with_95_percent(samples):
    outside = int(Figure.of(range(samples)).low)
    missed = [2 * sum(comb(samples, rank) for rank in range(ranks)) for ranks in (outside + 1, outside + 2)]
    assert missed[0] * 20 <= 2**samples < missed[1] * 20


@given(values=st.lists(st.floats(0.001, 1000), min_size=1))
def test_a_median_lies_in_its_interval(values):
    figure = Figure.of(values)
    assert figure.low <= figure.median <= figure.high


def test_a_spread_is_half_the_interval_as_a_part_of_the_median():
    assert Figure(median=10, low=9, high=12, count=9).spread == 0.15


def test_a_figure_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one sample"):
        Figure.of([])


def test_competitors_take_turns_and_the_warm_up_does_not_count():
    taken: list[str] = []

    def competitor(name):
        def sample():
            taken.append(name)
            return float(len(taken))

        return sample

    rounds = interleave({"a": competitor("a"), "b": competitor("b")}, [("a", "b")], least=2, most=2, enough=0)
    assert "".join(taken) == "ababab"
    assert rounds.samples == {"a": [3, 5], "b": [4, 6]}


def test_ratios_are_formed_inside_a_round_so_that_a_slow_spell_falls_on_both():
    spells = [1, 9, 2, 30, 1, 7, 3]
    ours, peer = iter([2 * each for each in spells]), iter(spells)
    rounds = interleave({"ours": lambda: next(ours), "peer": lambda: next(peer)}, [("ours", "peer")], warm_up=0)
    assert rounds.ratio("ours", "peer") == Figure(2, 2, 2, 7)
    assert rounds.figure("peer").median == 3


def test_rounds_go_on_while_the_spread_is_too_wide():
    numbers = count(1)
    rounds = interleave({"ours": lambda: next(numbers) ** 2, "peer": lambda: 1}, [("ours", "peer")], least=3, most=20)
    assert len(rounds.samples["ours"]) == 20


def test_the_collector_is_off_during_a_sample_and_on_again_after_it_failed():
    seen: list[bool] = []

    def fails():
        seen.append(gc.isenabled())
        raise RuntimeError

    with pytest.raises(RuntimeError):
        uncollected(fails)()
    assert seen == [False]
    assert gc.isenabled()
