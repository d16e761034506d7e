"""pairs: names and values, or an error that says what came instead."""

from __future__ import annotations

import pytest

from comity.client.pairs import pairs_of
from comity.errors import InvalidRequest


@pytest.mark.parametrize(
    "given", [{"a": 1, "b": 2}, [("a", 1), ("b", 2)], (["a", 1], ["b", 2]), {"a": 1, "b": 2}.items()]
)
def test_a_mapping_and_pairs_say_the_same(given):
    assert pairs_of(given, "params") == [("a", 1), ("b", 2)]


def test_pairs_may_come_one_by_one():
    assert pairs_of((pair for pair in [("a", 1)]), "params") == [("a", 1)]


@pytest.mark.parametrize("given", ["a=b", b"a", 5, None, [("a",)], [("a", 1, 2)], ["ab"], {"ab", "cd"}])
def test_anything_else_is_refused_without_its_values(given):
    """SC-01"""
    with pytest.raises(InvalidRequest, match=r"headers (is|holds) (None|an? [a-zA-Z]+( of [0-9])?); ") as caught:
        pairs_of(given, "headers")
    assert "a=b" not in str(caught.value)
