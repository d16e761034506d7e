"""Turns: one bound over many hosts."""

from __future__ import annotations

from comity.policy.turns import Turns


def test_places_are_taken_until_none_is_free():
    turns = Turns(2)
    assert [turns.take("a") for _ in range(3)] == [True, True, False]
    assert turns.free == 0


def test_a_freed_place_goes_to_who_stands_first_in_line_and_to_nobody_else():
    turns = Turns(1)
    turns.take("a")
    for who in ("b", "c"):
        assert not turns.take(who)
    assert turns.next() is None
    turns.give()
    assert turns.next() == "b"
    assert not turns.take("a")
    assert not turns.take("c")
    assert turns.take("b")


def test_hosts_get_one_place_a_turn():
    turns, served = Turns(1), []
    turns.take("x")
    for who in ("a", "b", "c"):
        turns.take(who)
    for _ in range(6):
        turns.give()
        who = turns.next()
        assert turns.take(who)
        served.append(who)
        turns.take(who)
    assert served == ["a", "b", "c", "a", "b", "c"]


def test_who_leaves_the_line_does_not_hold_up_those_behind():
    turns = Turns(1)
    turns.take("x")
    turns.take("a")
    turns.take("b")
    turns.leave("a")
    turns.leave("never there")
    turns.give()
    assert turns.next() == "b"
