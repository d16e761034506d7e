"""Views: how stored values read outside."""

from __future__ import annotations

import pytest

from comity.store.records import Answer
from comity.web.views import outcome


@pytest.mark.parametrize(
    ("body", "truncated", "text", "encoded"),
    [
        (b"", False, "", None),
        ("é".encode(), False, "é", None),
        ("aé".encode()[:-1], True, "a", None),
        ("aé".encode()[:-1], False, None, "YcM="),
        (b"\xff", True, None, "/w=="),
    ],
)
def test_a_body_is_text_where_it_is_utf_8_also_when_it_was_cut(body, truncated, text, encoded):
    told = outcome(Answer(status=200, body=body, truncated=truncated, size=9))
    assert (told.body, told.body_base64) == (text, encoded)


def test_headers_are_read_as_pairs_or_as_an_object():
    for stored in (b'[["A","1"]]', b'{"A":"1"}'):
        assert outcome(Answer(status=200, headers=stored)).headers == [("A", "1")]
