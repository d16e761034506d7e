"""Sampling: latencies of requests that saw the same decision. Times are plain numbers."""

from __future__ import annotations

import pytest

from comity.policy.sampling import Sampling


def sampling(size: int, *, first: int = 0, floor: float = 0.0) -> Sampling:
    found = Sampling()
    found.open(first, size, floor)
    for rank in range(first, first + size):
        found.begin(rank, rank - first + 1, 0)
    return found


def test_it_is_over_when_all_are_back():
    """Requests that started before or after it do not count."""
    four = sampling(4, first=10)
    assert [four.end(rank, 100, 1) for rank in (9, 10, 14, 11, 12, 13)] == [False] * 5 + [True]
    four.sum_up(1)
    assert (four.count, four.mean, four.peak) == (4, 100.0, 4)


def test_stragglers_are_waited_for_and_then_count_with_their_age():
    twenty = sampling(20)
    assert not any(twenty.end(rank, 100, 100) for rank in range(18))
    assert not twenty.end(99, None, 149)
    assert twenty.end(99, None, 150)
    twenty.sum_up(400)
    assert (twenty.count, twenty.mean) == (20, 130.0)


def test_stragglers_are_waited_for_longer_when_the_floor_is_higher_than_what_came_back():
    twenty = sampling(20, floor=1_000.0)
    assert not any(twenty.end(rank, 100, 100) for rank in range(18))
    assert not twenty.end(99, None, 599)
    assert twenty.end(99, None, 600)


def test_one_that_is_cut_short_counts_what_is_there():
    twenty = sampling(20)
    for rank in range(6):
        twenty.end(rank, 100, 100)
    twenty.sum_up(5_000)
    assert (twenty.count, twenty.mean) == (6, 100.0)


def test_ends_without_a_latency_are_no_samples():
    four = sampling(4)
    assert [four.end(rank, latency, 1) for rank, latency in enumerate((None, 80, None, 120))][-1]
    four.sum_up(1)
    assert (four.count, four.mean) == (2, 100.0)


def test_a_single_latency_says_nothing_about_noise():
    one = sampling(1)
    one.end(0, 100, 1)
    one.sum_up(1)
    assert one.noise == pytest.approx(0.3 * 100.0**2)


def test_noise_follows_what_latencies_scatter_by_and_never_leaps():
    steady = sampling(60)
    for rank in range(60):
        steady.end(rank, 100, 1)
    steady.sum_up(1)
    assert steady.noise == pytest.approx(1_500.0)
    steady.open(60, 60, 100.0)
    for rank in range(60, 120):
        steady.end(rank, 100 if rank % 2 else 1_000, 1)
    steady.sum_up(1)
    assert steady.noise == pytest.approx(3_750.0)


def test_answers_that_are_all_alike_leave_some_noise():
    alike = sampling(60)
    for _ in range(2_000):
        for rank in range(60):
            alike.end(rank, 100, 1)
        alike.sum_up(1)
        alike.open(0, 60, 100.0)
    assert alike.noise == pytest.approx(1.0)
