"""Sharing: how free slots are given to lanes."""

from __future__ import annotations

from hypothesis import given, strategies as st

from comity.store.sharing import share

lanes = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 500)), max_size=40)


@given(st.integers(0, 1000), lanes)
def test_no_more_is_given_than_is_free_and_than_is_wanted(free, waiting):
    given_ = share(free, waiting)
    assert sum(given_) <= free
    assert all(0 <= got <= ready for got, (_, ready) in zip(given_, waiting, strict=True))


@given(st.integers(4, 1000), st.lists(st.integers(1, 10_000), min_size=2, max_size=40))
def test_no_lane_comes_to_hold_over_a_quarter_of_all_slots(slots, queues):
    assert max(share(slots, [(0, ready) for ready in queues])) <= -(-slots // 4)


@given(st.integers(1, 1000), lanes)
def test_whoever_holds_nothing_gets_something_while_there_is_enough_for_each(free, waiting):
    given_ = share(free, waiting)
    empty = [got for got, (held, ready) in zip(given_, waiting, strict=True) if not held and ready]
    assert sum(got > 0 for got in empty) >= min(len(empty), free // (len(waiting) + 3))


@given(st.integers(1, 200), st.integers(2, 8))
def test_those_that_want_the_same_get_the_same(free, many):
    given_ = share(free, [(0, 10_000)] * many)
    assert max(given_) - min(given_) <= 1


def test_the_first_in_turn_gets_the_only_slot():
    assert share(1, [(0, 5), (0, 5)]) == [1, 0]


def test_lanes_that_wake_up_one_after_another_each_get_a_quarter_of_what_is_left():
    """Though the first was alone, and took half."""
    free, held = 512, []
    for _ in range(6):
        held.append(0)
        got = share(free, [(each, 10_000) for each in held])
        held = [sum(both) for both in zip(held, got, strict=True)]
        free -= sum(got)
    assert held == [256, 64, 48, 36, 27, 21]
