"""LineSplitter: bytes in, numbered lines out."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from comity.bulk.lines import KEPT_OF_LONG, Line, LineSplitter


def split(*chunks: bytes, limit: int = 1 << 20) -> list[Line]:
    splitter = LineSplitter(limit=limit)
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\na\n", [b"", b"", b"a"]),
        (b"\xef\xbb\xbfa\nb\n", [b"a", b"b"]),
        (b"a\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
    ],
)
def test_lines_end_with_lf_or_crlf_and_one_mark_before_the_first_is_dropped(data, lines):
    assert [line.data for line in split(data)] == lines


@given(st.lists(st.binary(max_size=20)))
def test_where_the_blocks_are_cut_changes_nothing(chunks):
    assert split(*chunks) == split(b"".join(chunks))


def test_numbers_go_on_from_the_first():
    splitter = LineSplitter(first=7)
    assert [line.number for line in splitter.feed(b"a\n\nb\n")] == [7, 8, 9]


@pytest.mark.parametrize("step", [1, 7, 5000, 100_000])
def test_a_line_over_the_limit_is_marked_and_the_next_is_whole(step):
    data = b"x" * 20_000 + b"\nnext\n"
    lines = split(*(data[i : i + step] for i in range(0, len(data), step)), limit=10_000)
    assert lines == [Line(1, b"x" * KEPT_OF_LONG, too_long=True), Line(2, b"next")]


def test_a_line_without_end_is_not_kept_beyond_the_limit():
    splitter = LineSplitter(limit=1000)
    for _ in range(1000):
        splitter.feed(b"x" * 1000)
    assert sum(map(len, splitter._parts)) <= 2000
