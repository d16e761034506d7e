"""Links: the Link header of RFC 8288."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from comity.client.links import Link, links, target_of


def found(*values):
    return [(link.target, sorted(link.relations)) for link in links(values)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('<https://h/x?page=2>; rel="next"', [("https://h/x?page=2", ["next"])]),
        ("</2>;rel=next", [("/2", ["next"])]),
        ("</2>; REL=Next", [("/2", ["next"])]),
        ('</2>; rel = "next"', [("/2", ["next"])]),
        ('</2>; rel="prefetch next"', [("/2", ["next", "prefetch"])]),
        ('</1>; rel="prev", </3>; rel="next"', [("/1", ["prev"]), ("/3", ["next"])]),
        ('</a,b;c>; rel="next"', [("/a,b;c", ["next"])]),
        ('</2>; title="a, <b>; rel=prev"; rel="next"', [("/2", ["next"])]),
        (r'</2>; title="a \"quoted\" b"; rel="next"', [("/2", ["next"])]),
        ('</2>; title=My page; rel="next"', [("/2", ["next"])]),
        ('</2>; rel="next"; rel="prev"', [("/2", ["next"])]),
        ('</2>;; rel="next";', [("/2", ["next"])]),
        ("</2>; crossorigin; rel=next", [("/2", ["next"])]),
        ('</2>; rel="next"; anchor="#chapter"', []),
        (',, </2>; rel="next",,', [("/2", ["next"])]),
        ('rubbish, </2>; rel="next"', [("/2", ["next"])]),
        ('<>; rel="next"', [("", ["next"])]),
        ("</2>", [("/2", [])]),
        ('</2; rel="next"', []),
        ('</2>; rel="next', [("/2", [])]),
        ("", []),
    ],
)
def test_a_field_is_read_as_its_grammar_says(value, expected):
    assert found(value) == expected


def test_several_fields_count_as_one_list_and_the_first_target_of_a_relation_is_taken():
    values = ['</1>; rel="prev"', '</3>; rel="next", </4>; rel="next"']
    assert found(*values) == [("/1", ["prev"]), ("/3", ["next"]), ("/4", ["next"])]
    assert (target_of(values, "next"), target_of(values, "last")) == ("/3", None)


@given(st.text(alphabet='<>;,="\\ \tarel/next', max_size=60))
def test_any_text_is_read_without_an_error(value):
    assert all(isinstance(link, Link) for link in links([value]))


@pytest.mark.parametrize("piece", [",", " ,", "<", '"', ';a="', "<a>;", '<a>;rel="\\"', "<a,", ";"])
def test_a_long_field_takes_time_in_proportion(piece):
    assert len(list(links([piece * 200_000]))) <= 200_000
