"""Lines: the same lines, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from comity.client.lines import Lines

TEXT = "\ufeffdata: a\r\na\n\nb\rc\x0cd\r\r\neé\u2028f\n\ufeffg"
WANTED = ["data: a", "a", "", "b", "c\x0cd", "", "eé\u2028f", "\ufeffg"]


def lines_of(pieces: list[bytes], charset: str = "utf-8") -> list[str]:
    lines = Lines(charset)
    return [line for piece in pieces for line in lines.feed(piece)] + lines.end()


@given(st.lists(st.integers(0, len(TEXT.encode())), max_size=9))
def test_lines_do_not_depend_on_how_the_bytes_are_cut(cuts):
    data, at = TEXT.encode(), sorted({0, *cuts, len(TEXT.encode())})
    assert lines_of([data[start:end] for start, end in pairwise(at)]) == WANTED


@given(st.lists(st.text("ab\r\n", max_size=4), max_size=8))
def test_lines_are_those_of_universal_newlines(pieces):
    """Python's own `str.splitlines`, for text with no other ends in it."""
    assert lines_of([piece.encode() for piece in pieces]) == "".join(pieces).splitlines()


def test_a_line_is_given_out_as_soon_as_it_is_whole():
    lines = Lines("utf-8")
    assert (lines.feed(b"a\r"), lines.feed(b"\nb"), lines.feed(b""), lines.end()) == (["a"], [], [], ["b"])


def test_bytes_that_are_no_text_are_replaced():
    assert lines_of([b"\xff\xe4", b"\n\xc3"]) == ["\ufffd\ufffd", "\ufffd"]
