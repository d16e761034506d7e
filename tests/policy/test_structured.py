"""Structured field lists: whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from comity.policy.structured import Item, items, unquoted, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"burst";q=100;w=60', [Item("burst", None, {"q": "100", "w": "60"})]),
        ('"a";r=1 , b;r=2;t=3', [Item("a", None, {"r": "1"}), Item("b", None, {"r": "2", "t": "3"})]),
        ("limit=100, remaining=50", [Item("limit", "100", {}), Item("remaining", "50", {})]),
        ('"a, b; \\"c\\"";r=1', [Item('a, b; "c"', None, {"r": "1"})]),
        ('"a";pk=:dGVzdA==:;r=1', [Item("a", None, {"pk": ":dGVzdA==:", "r": "1"})]),
        ('"a";flag;  r=1;on=?0', [Item("a", None, {"flag": "?1", "r": "1", "on": "?0"})]),
        ("100;w=60", [Item("100", None, {"w": "60"})]),
    ],
)
def test_members_have_names_values_and_parameters(text, expected):
    assert items(text) == expected


@pytest.mark.parametrize(
    "text", ["", '"a', '"a";r=1,', '"a";r=1 "b";r=2', '"a";R=1', "é;r=1", '"a";;r=1', ",", '"a" ;r=1', '"é"', '"a";r=']
)
def test_a_list_that_is_malformed_anywhere_has_no_members(text):
    """RFC 9651, 4.2: a field that fails to parse is ignored as a whole."""
    assert items(text) == []


@pytest.mark.parametrize(
    ("text", "number"), [("50", 50), ("0", 0), (None, None), ("-1", None), ("1.5", None), ("9" * 16, None), ("٣", None)]
)
def test_a_whole_number_has_no_sign_and_at_most_15_digits(text, number):
    assert whole(text) == number


def test_a_string_loses_its_quotes_and_a_token_has_none():
    assert unquoted('"content-bytes"') == unquoted("content-bytes") == "content-bytes"


@given(st.text(max_size=60) | st.text('"a1;=, \\:?', max_size=60))
def test_no_text_makes_it_fail(text):
    assert all(isinstance(item, Item) for item in items(text))
