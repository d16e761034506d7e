"""Drains: when, how far down and how long. Pure: every test passes `now`, ns."""

from __future__ import annotations

import pytest

from comity.policy.drains import PERIOD, Drains
from comity.policy.units import seconds


@pytest.mark.parametrize(("now", "offset", "at"), [(0, 0, 15), (14, 0, 15), (15, 0, 30), (3, 10, 5), (3, 999, 6)])
def test_they_come_at_multiples_of_15_s_of_the_wall_clock(now, offset, at):
    assert Drains(seconds(now), seconds(offset)).at == seconds(at)


@pytest.mark.parametrize(("limit", "width"), [(100.0, 45), (6.0, 2), (5.9, 1), (1.0, 1)])
def test_they_leave_less_than_half_of_the_limit(limit, width):
    assert Drains.width(limit) == width


@pytest.mark.parametrize(
    ("width", "floor", "wanted", "size"),
    [
        (9, 0.0, 0, 4),  # nothing is known: a look
        (9, 0.1, 5, 16),
        (30, 0.1, 5, 30),
        (200, 0.1, 5, 64),
        (30, 0.01, 100, 100),
        (30, 0.01, 1_000, 120),
        (1, 0.2, 5, 7),  # what a ninth of the period has time for
        (1, 3.0, 5, 4),
    ],
)
def test_they_take_what_noise_asks_for_as_far_as_time_allows(width, floor, wanted, size):
    assert Drains.size(width, floor * 1e9, wanted) == size


def test_where_even_a_few_answers_take_long_they_are_rare():
    drains = Drains(0, 0)
    drains.begin(seconds(15), 1, 4, 3e9, 3e9)
    assert drains.at == 16 * PERIOD


@pytest.mark.parametrize(("floor", "latency", "late"), [(0.01, 0.01, 2.0), (0.5, 0.5, 4.5), (0.5, 2.0, 18.0)])
def test_one_that_takes_three_times_as_long_as_planned_is_over(floor, latency, late):
    drains = Drains(0, 0)
    drains.begin(0, 8, 16, floor * 1e9, latency * 1e9)
    assert drains.late == seconds(late)


def test_one_that_is_wanted_sooner_comes_at_a_multiple_of_an_eighth():
    drains = Drains(0, 0)
    drains.want(seconds(4))
    assert drains.at == 3 * PERIOD // 8
    drains.want(seconds(9))
    assert drains.at == 3 * PERIOD // 8
