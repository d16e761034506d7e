"""BodyTemplate: what a body is filled with, and what is no template."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from comity.bulk.body import BodyTemplate
from comity.errors import OptionsError

ROW = {"a": 'x"y\\z\n', "n": " 12 ", "o": '{"k": [1.10]}', "t": "text", "two words": "é"}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"s": "{t}"}', b'{"s": "text"}'),
        ('{"s": "<{a}>"}', b'{"s": "<x\\"y\\\\z\\n>"}'),
        ('{"{t}": {n}, "o": {o}}', b'{"text": 12, "o": {"k": [1.10]}}'),
        ('{"s": "{{t}} {two words}", "in": {"deep": [{ n }]}}', '{"s": "{t} é", "in": {"deep": [12]}}'.encode()),
        ('["{t}", {}, {"x":{}}]', b'["text", {}, {"x":{}}]'),
        ("{n}", b"12"),
    ],
)
def test_json_is_filled_within_strings_and_as_values(text, content):
    assert BodyTemplate(text, "--json").fill(ROW) == content


@given(value=st.text())
def test_whatever_a_column_holds_it_stays_within_its_string(value):
    filled = BodyTemplate('{"s": "{v}", "w": 1}', "--json").fill({"v": value})
    assert json.loads(filled) == {"s": value, "w": 1}


def test_values_of_an_object_keep_their_types():
    template = BodyTemplate('[{n}, {b}, {o}, {s}, "{n}", "{b}"]', "--json")
    assert template.fill({"n": 1.5, "b": True, "o": {"k": None}, "s": "x"}, typed=True) == (
        b'[1.5, true, {"k":null}, "x", "1.5", "true"]'
    )


def test_text_is_filled_as_it_is():
    assert BodyTemplate("{{n}}={n}&t={t}", "--body").fill(ROW) == b"{n}= 12 &t=text"


def test_a_column_that_holds_no_json_is_told():
    with pytest.raises(ValueError, match="column 't' is no JSON value"):
        BodyTemplate("[{t}]", "--json").fill(ROW)


@pytest.mark.parametrize("text", ["", "{", '{"a": }', '{"a": "{"}', '{"a": "{}"}', '{"a": "}"}', "{t} {t}", "[1,]"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(OptionsError, match="--json="):
        BodyTemplate(text, "--json")


@pytest.mark.parametrize("text", ["{", "a}", "{ }", "{a{b}}"])
def test_braces_that_hold_no_column_are_refused(text):
    with pytest.raises(OptionsError, match=r"--body=.*\{\{ and \}\} stand for braces"):
        BodyTemplate(text, "--body")
