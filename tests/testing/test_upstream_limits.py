"""The upstream's limits: exact in integer nanoseconds. Pure: every test passes `now`."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from comity.testing.upstream.limits import SECOND, FixedWindow, SlidingWindow, Slots, TokenBucket

PER = 5 * SECOND
GAPS = st.lists(st.integers(0, 40), max_size=60)


def test_a_sliding_window_refuses_the_one_over_its_limit_and_says_when_a_place_is_free():
    window = SlidingWindow(PER)
    assert [window.admit(at, 2).accepted for at in (0, SECOND)] == [True, True]

    refused = window.admit(2 * SECOND, 2)

    assert (refused.accepted, refused.wait, refused.remaining) == (False, 3 * SECOND, 0)


@pytest.mark.parametrize(("late", "accepted"), [(PER - 1, False), (PER, True)])
def test_a_sliding_window_is_half_open(late, accepted):
    window = SlidingWindow(PER)
    window.admit(0, 1)
    assert window.admit(late, 1).accepted is accepted


def test_a_refused_request_does_not_count_against_a_sliding_window():
    window = SlidingWindow(PER)
    window.admit(0, 1)
    assert not window.admit(PER - 1, 1).accepted
    assert window.admit(PER, 1).accepted


def test_a_lowered_limit_waits_until_enough_starts_have_left():
    window = SlidingWindow(PER)
    for at in (0, 1, 2):
        window.admit(at, 3)
    assert window.admit(10, 1).wait == 2 + PER - 10


@given(gaps=GAPS, n=st.integers(1, 5), per=st.integers(1, 60))
def test_a_sliding_window_accepts_exactly_what_a_naive_count_allows(gaps, n, per):
    window, accepted, now = SlidingWindow(per), [], 0
    for gap in gaps:
        now += gap
        allowed = sum(now - per < at <= now for at in accepted) < n
        verdict = window.admit(now, n)
        assert verdict.accepted is allowed
        if allowed:
            accepted.append(now)
        else:
            # One ns before the announced moment the window is still full, at that moment it is not.
            free = now + verdict.wait
            assert sum(free - 1 - per < at for at in accepted) >= n
            assert sum(free - per < at for at in accepted) < n


def test_a_fixed_window_lets_twice_its_limit_pass_around_a_boundary():
    window = FixedWindow(PER, 100)
    late, early = 100 + PER - 1, 100 + PER
    assert [window.admit(at, 2).accepted for at in (late, late, late, early, early, early)] == [True, True, False] * 2


def test_a_fixed_window_says_when_the_next_one_begins():
    window = FixedWindow(PER, 0)
    window.admit(SECOND, 1)
    assert window.admit(2 * SECOND, 1).wait == 3 * SECOND


def test_a_bucket_passes_its_burst_at_once_and_then_its_rate():
    bucket = TokenBucket(Fraction(2), 3, 0)
    assert [bucket.admit(0).accepted for _ in range(4)] == [True, True, True, False]
    assert not bucket.admit(SECOND // 2 - 1).accepted
    assert bucket.admit(SECOND // 2).accepted


def test_a_bucket_of_a_third_per_second_loses_nothing_to_rounding():
    bucket = TokenBucket(Fraction(1, 3), 1, 0)
    starts = [0]
    bucket.admit(0)
    for _ in range(1000):
        starts.append(starts[-1] + bucket.admit(starts[-1]).wait)
        assert bucket.admit(starts[-1]).accepted
    assert starts[-1] == 3000 * SECOND


@given(gaps=GAPS, rate=st.fractions(min_value=Fraction(1, 7), max_value=9), burst=st.integers(1, 4))
def test_a_bucket_accepts_exactly_what_fractions_allow(gaps, rate, burst):
    bucket, level, now = TokenBucket(rate, burst, 0), Fraction(burst), 0
    for gap in gaps:
        step = gap * SECOND // 13
        now += step
        level = min(Fraction(burst), level + rate * step / SECOND)
        verdict = bucket.admit(now)
        assert verdict.accepted is (level >= 1)
        if verdict.accepted:
            level -= 1
            assert verdict.remaining == int(level)
        else:
            assert level + rate * verdict.wait / SECOND >= 1
            assert level + rate * (verdict.wait - 1) / SECOND < 1


def test_workers_serve_one_each_and_the_others_wait_in_line():
    slots = Slots()
    done = [slots.enter(0, workers=2, service=50, queue=None) for _ in range(5)]
    assert done == [50, 50, 100, 100, 150]


def test_a_full_line_refuses_and_takes_again_when_one_has_started():
    slots = Slots()
    assert [slots.enter(0, workers=1, service=50, queue=1) for _ in range(3)] == [50, 100, None]
    assert slots.enter(50, workers=1, service=50, queue=1) == 150


def test_more_workers_serve_at_once_and_fewer_keep_what_they_hold():
    slots = Slots()
    slots.enter(0, workers=1, service=100, queue=None)
    assert slots.enter(10, workers=2, service=20, queue=None) == 30
    assert slots.enter(10, workers=1, service=20, queue=None) == 120
