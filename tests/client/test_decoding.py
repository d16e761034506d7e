"""decoding: content codings are undone completely, within bounds, or not at all."""

from __future__ import annotations

import re
import sys
import zlib

import brotli
import pytest
from hypothesis import given, strategies as st

from comity.client.codings import ACCEPTED, Damaged, Undecodable
from comity.client.decoding import Body
from tests.client.scripted import packed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"courteous respect between peers " * 50


def bare_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(data) + coder.flush()


def decoded(codings: str | None, data: bytes, *, cap: int | None = None, piece: int = 7) -> bytes:
    body = Body(codings, cap)
    for at in range(0, len(data), piece):
        body.feed(data[at : at + piece])
    return body.end()


@pytest.mark.parametrize(
    ("codings", "data"),
    [
        (None, TEXT),
        ("identity", TEXT),
        ("gzip", packed(TEXT)),
        ("X-GZIP", packed(TEXT)),
        ("gzip", packed(TEXT[:100]) + packed(TEXT[100:])),
        ("gzip", packed(TEXT) + b"\0" * 20),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", bare_deflate(TEXT)),
        ("deflate, gzip", packed(zlib.compress(TEXT))),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_coding_is_undone_however_the_bytes_arrive(codings, data, piece):
    assert decoded(codings, data, piece=piece) == TEXT


@pytest.mark.parametrize("codings", ["gzip", "deflate"])
def test_an_empty_body_has_nothing_to_decode(codings):
    assert decoded(codings, b"") == b""


@pytest.mark.parametrize("codings", ["gzip, x-foo", "x-foo, gzip", "chunked", "x-foo", "utf-8", "*"])
def test_a_coding_that_is_not_known_is_undecodable_and_named(codings):
    """Coded bytes are not the content (RFC 9110 section 8.4)."""
    data = packed(b"\x8b\x02\x80") if codings.endswith("gzip") else b"\x8b\x02\x80"
    (unknown,) = [name for name in codings.split(", ") if name != "gzip"]
    with pytest.raises(Undecodable, match=re.escape(repr(unknown))):
        decoded(codings, data)


def test_an_empty_body_needs_no_coding_to_be_known():
    assert decoded("x-foo", b"") == b""


@pytest.mark.parametrize("missing", [1, 8, 9, 30])
def test_gzip_without_its_end_is_damaged(missing):
    """CP-09"""
    with pytest.raises(Damaged):
        decoded("gzip", packed(TEXT)[:-missing])


@pytest.mark.parametrize("place", [-8, -1])
def test_gzip_with_a_wrong_checksum_or_length_is_damaged(place):
    """CP-09"""
    data = bytearray(packed(TEXT))
    data[place] ^= 1
    with pytest.raises(Damaged):
        decoded("gzip", bytes(data))


@pytest.mark.parametrize("data", [zlib.compress(TEXT)[:-1], bare_deflate(TEXT)[:-2]])
def test_deflate_without_its_end_is_damaged(data):
    with pytest.raises(Damaged):
        decoded("deflate", data)


@pytest.mark.parametrize(
    ("codings", "data"),
    [
        ("gzip", b"plain text"),
        ("gzip", packed(TEXT) + b"trailing"),
        ("deflate", zlib.compress(TEXT) + b"trailing"),
        ("deflate", b"\xff\xff\xff\xff"),
        ("gzip, gzip, gzip, gzip, gzip", b""),
    ],
)
@pytest.mark.parametrize("piece", [1, 100_000])
def test_bytes_that_are_no_such_coding_are_refused(codings, data, piece):
    with pytest.raises(Undecodable):
        decoded(codings, data, piece=piece)


def test_the_cap_counts_decoded_bytes():
    """HB-03"""
    bomb = packed(b"\0" * 10_000_000)
    with pytest.raises(Undecodable, match="max_body=1000000"):
        decoded("gzip", bomb, cap=1_000_000, piece=100_000)


def test_a_body_of_exactly_the_cap_passes():
    assert decoded("gzip", packed(TEXT), cap=len(TEXT)) == TEXT


def test_a_coded_body_that_decodes_to_nothing_reaches_the_cap_too():
    """HB-03"""
    with pytest.raises(Undecodable, match="far larger than max_body=1000"):
        decoded("gzip", packed(b"") * 10_000, cap=1000, piece=2000)


def test_a_stream_of_tiny_members_is_refused_before_they_cost_more_than_they_bring():
    """HB-03"""
    with pytest.raises(Undecodable, match="tiny members"):
        decoded("gzip", packed(b"") * 20_000, piece=100_000)


def test_a_stream_of_many_short_members_passes():
    lines = [f"{number:060}\n".encode() for number in range(5000)]
    assert decoded("gzip", b"".join(map(packed, lines)), piece=100_000) == b"".join(lines)


@given(data=st.binary(max_size=2000), piece=st.integers(1, 500))
def test_what_was_coded_comes_back(data, piece):
    assert decoded("gzip", packed(data), piece=piece) == data
    assert decoded("deflate", zlib.compress(data), piece=piece) == data


def zstd_with(data: bytes, **options: int) -> bytes:
    coder = zstd.ZstdCompressor(options={zstd.CompressionParameter[name]: value for name, value in options.items()})
    return coder.compress(data) + coder.flush()


CODERS = {"br": brotli.compress, "zstd": zstd.compress}


def test_what_can_be_undone_is_asked_for():
    assert ACCEPTED == "gzip, deflate, br, zstd"


@pytest.mark.parametrize("coding", CODERS)
@given(data=st.binary(max_size=2000), piece=st.integers(1, 500))
def test_br_and_zstd_come_back_however_they_are_split(coding, data, piece):
    assert decoded(coding, CODERS[coding](data), piece=piece) == data


@pytest.mark.parametrize("coding", CODERS)
def test_every_cut_of_br_and_zstd_is_damaged(coding):
    data = CODERS[coding](TEXT)
    for size in range(1, len(data)):
        with pytest.raises(Damaged):
            decoded(coding, data[:size])


@pytest.mark.parametrize("coding", CODERS)
@pytest.mark.parametrize("piece", [1, 100_000])
def test_br_and_zstd_followed_by_garbage_or_made_of_it_are_undecodable(coding, piece):
    for data in (CODERS[coding](TEXT) + b"trailing", b"\xff" * 20):
        with pytest.raises(Undecodable):
            decoded(coding, data, piece=piece)


@pytest.mark.parametrize("coding", CODERS)
def test_a_bomb_in_br_or_zstd_is_stopped_and_passes_whole_without_a_cap(coding):
    """HB-03"""
    bomb = CODERS[coding](bytes(10_000_000))
    with pytest.raises(Undecodable, match="max_body=1000000"):
        decoded(coding, bomb, cap=1_000_000, piece=100_000)
    assert decoded(coding, bomb, piece=100_000) == bytes(10_000_000)


def test_zstd_frames_in_a_row_are_one_body():
    assert decoded("zstd", zstd.compress(TEXT[:99]) + zstd.compress(TEXT[99:]), piece=100_000) == TEXT


def test_a_zstd_window_over_8_mb_is_refused():
    with pytest.raises(Undecodable):
        decoded("zstd", zstd_with(bytes(100_000), window_log=25))


def test_a_zstd_stream_of_tiny_frames_is_refused():
    """HB-03"""
    with pytest.raises(Undecodable, match="tiny frames"):
        decoded("zstd", zstd.compress(b"") * 20_000, piece=100_000)


def test_a_wrong_zstd_checksum_is_damaged():
    data = bytearray(zstd_with(TEXT, checksum_flag=1))
    data[-1] ^= 1
    with pytest.raises(Damaged):
        decoded("zstd", bytes(data))
