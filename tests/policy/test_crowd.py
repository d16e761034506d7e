"""Crowd: refusals of too many at once. Pure: every test passes `now`, ns."""

from __future__ import annotations

from comity.policy.crowd import Crowd
from comity.policy.pause import NO_CAP
from comity.policy.units import seconds


def crowd(*abreast: int, refused: int | None = 4) -> Crowd:
    """Return one that saw successes with so many under way, and a refusal of start 10."""
    found = Crowd()
    for each in abreast:
        found.accept(each)
    if refused is not None:
        found.refuse(10, refused, 0, 20)
    return found


def test_a_refusal_where_hardly_anything_succeeded_sets_the_cap_below_it():
    found = crowd(1, 2, 3, 3, refused=None)
    assert found.refuse(10, 4, 0, 20) is True
    assert found.cap == 3


def test_a_refusal_where_much_succeeded_is_about_the_rate():
    found = crowd(4, 4, 4, refused=None)
    assert found.refuse(10, 4, 0, 20) is False
    assert found.cap == NO_CAP


def test_the_only_one_under_way_is_never_too_many():
    assert crowd(refused=None).refuse(10, 1, 0, 20) is False


def test_refusals_of_what_started_before_the_cap_lower_it_no_further():
    found = crowd(1, 2, 3)
    assert found.refuse(12, 6, 0, 20) is True
    assert found.cap == 3


def test_after_two_seconds_one_more_is_tried_and_a_success_removes_the_cap():
    found = crowd(1, 2, 3)
    found.begin(3, seconds(1))
    assert found.cap == 3
    found.begin(2, seconds(2))
    assert found.cap == 3
    found.begin(3, seconds(2))
    found.begin(4, seconds(2))
    assert found.cap == 4
    found.accept(3)
    assert found.cap == 4
    found.accept(4)
    assert found.cap == NO_CAP


def test_a_try_that_is_refused_doubles_the_time_to_the_next_up_to_a_minute():
    found, now, last, waits = crowd(1, 2, 3), 0, 0, []
    while len(waits) < 7:
        now += 1
        found.begin(3, seconds(now))
        if found.cap == 4:
            assert found.refuse(30, 4, seconds(now), 31) is True
            waits.append(now - last)
            last = now
    assert found.cap == 3
    assert waits == [2, 4, 8, 16, 32, 60, 60]
