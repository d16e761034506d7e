"""Gunzip: gzip undone in bounded steps."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given, strategies as st

from comity.client.gunzip import STEP, Gunzip

EMPTY = gzip.compress(b"")


def unpack(data: bytes, step: int) -> bytes:
    gunzip, out = Gunzip(), b""
    for start in range(0, len(data), step):
        out += gunzip.feed(data[start : start + step])
        while gunzip.pending:
            out += gunzip.feed(b"")
    gunzip.finish()
    return out


@given(st.lists(st.binary(max_size=2000), min_size=1), st.integers(1, 5000))
def test_gzip_members_in_a_row_read_as_one_stream(parts, step):
    packed = b"".join(gzip.compress(part) for part in parts)
    assert unpack(packed, step) == b"".join(parts)


def test_a_gzip_bomb_comes_in_bounded_steps():
    gunzip = Gunzip()
    first = gunzip.feed(gzip.compress(bytes(50_000_000)))
    assert len(first) <= 256 * 1024
    assert gunzip.pending


def test_a_gzip_stream_cut_short_is_told():
    gunzip = Gunzip()
    gunzip.feed(gzip.compress(b"hello")[:-4])
    with pytest.raises(EOFError, match="ends before"):
        gunzip.finish()


def test_a_damaged_gzip_stream_is_told():
    with pytest.raises(zlib.error):
        unpack(gzip.compress(b"hello" * 100)[:10] + b"\xff" * 40, 1000)


def test_padding_after_and_between_members_is_passed_over():
    assert unpack(gzip.compress(b"a") + bytes(20_000) + gzip.compress(b"b") + bytes(9), 7_000) == b"ab"


def test_an_output_as_long_as_a_step_comes_whole():
    data = bytes(2 * STEP)
    assert unpack(gzip.compress(data), 1 << 20) == data


def test_one_step_begins_a_bounded_number_of_members():
    gunzip = Gunzip()
    assert gunzip.feed(EMPTY * 10_000) == b""
    assert gunzip.members <= 256
    assert gunzip.pending
