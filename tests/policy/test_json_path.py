"""JSON path: where in a value something stands."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.json_path import MISSING, JsonPath

VALUE = {"a": {"b": [{"c": 7}, None]}, "0": "zero", "n": None, "x-y": False}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b[0].c", 7),
        ("a.b.0.c", 7),
        ("$.a.b[0].c", 7),
        ("a.b[1]", None),
        ("n", None),
        ("0", "zero"),
        ("x-y", False),
        ("$", VALUE),
        ("a.b[2]", MISSING),
        ("a.b.c", MISSING),
        ("a.x", MISSING),
        ("n.x", MISSING),
        ("0.x", MISSING),
    ],
)
def test_a_path_leads_to_a_value_or_to_nothing(path, found):
    assert JsonPath(path, "next").find(VALUE) == found


def test_a_list_is_walked_from_its_root():
    assert JsonPath("[1].a", "next").find([0, {"a": 2}]) == 2


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "a[", "a[x]", "a[-1]", "a b", "a" * 501, None, 3])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(OptionsError, match="path into JSON"):
        JsonPath(path, "next")
