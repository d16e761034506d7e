"""Reading requests: nothing is decoded or guessed, and bytes may be cut anywhere. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from comity.testing.upstream.wire import MAX_HEAD, BadRequest, Body, take_head

POST = b"POST /a%2fb?x=%20\xe9 HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nx-one:  2 \r\nContent-Length: 3\r\n\r\n"
CHUNKED = b"4;ext=1\r\nwiki\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n"


def test_a_head_keeps_method_target_and_fields_as_sent():
    buffer = bytearray(POST + b"abc")

    head = take_head(buffer)

    assert (head.method, head.target, head.length, head.host) == ("POST", "/a%2fb?x=%20\xe9", 3, "h")
    assert head.pairs() == [("Host", "h"), ("X-One", "1"), ("x-one", "2"), ("Content-Length", "3")]
    assert buffer == b"abc"


@given(cut=st.integers(0, len(POST) - 1))
def test_an_incomplete_head_is_left_alone(cut):
    buffer = bytearray(POST[:cut])
    assert take_head(buffer) is None
    assert buffer == POST[:cut]


@pytest.mark.parametrize(
    ("fields", "keep_alive"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Close\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection: y, close\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n", False),
    ],
)
def test_the_connection_lives_on_unless_told_otherwise(fields, keep_alive):
    assert take_head(bytearray(fields + b"\r\n")).keep_alive is keep_alive


def test_empty_lines_before_a_request_are_skipped():
    assert take_head(bytearray(b"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")).target == "/"


def test_a_client_that_waits_for_100_is_noticed():
    assert take_head(bytearray(b"PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n")).expects


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /" + b"a" * MAX_HEAD, 431),
    ],
)
def test_a_malformed_or_ambiguous_head_is_refused(raw, status):
    with pytest.raises(BadRequest) as refused:
        take_head(bytearray(raw))
    assert refused.value.status == status


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"X-Host: h\r\n",
        b"Host: a\r\nHost: b\r\n",
        b"Host: a\r\nhost: a\r\n",
        b"Host: a b\r\n",
        b"Host: a/b\r\n",
        b"Host: u@a\r\n",
        b"Host: a:b\r\n",
        b"Host: \xe9\r\n",
        b"Host: [::1\r\n",
        b"Host: a, b\r\n",
        b"Host : a\r\n",
        b"Host: a\r\nA : b\r\n",
        b"Host: a\r\nA\t: b\r\n",
        b"Host: a\r\n A: b\r\n",
        b"Host: a\r\nA: b\r\n folded\r\n",
        b"Host: a\r\nA\r\n",
        b"Host: a\r\n: b\r\n",
        b"Host: a\r\nA(: b\r\n",
        b"Host: a\r\nA: \0\r\n",
        b"Host: a\r\nA: b\0\r\n",
        b"Host: a\r\nA: b\rC: d\r\n",
        b"Host: a\r\nA: b\nC: d\r\n",
    ],
)
def test_fields_that_a_server_must_refuse_are_400(fields):
    """RFC 9112, 3.2, 5, 5.1 and 5.2; RFC 9110, 5.5."""
    with pytest.raises(BadRequest) as refused:
        take_head(bytearray(b"GET / HTTP/1.1\r\n" + fields + b"\r\n"))
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "host", [b"", b"h", b"H.x:80", b"h:", b"127.0.0.1:1", b"[::1]", b"[::1]:8", b"a_b-c~%20", b" h \t"]
)
def test_a_host_is_a_name_or_an_address_perhaps_with_a_port_or_empty(host):
    assert take_head(bytearray(b"GET / HTTP/1.1\r\nHost:" + host + b"\r\n\r\n")).host == host.decode().strip()


def test_http_1_0_needs_no_host_but_has_one_at_most():
    assert take_head(bytearray(b"GET / HTTP/1.0\r\n\r\n")).host == ""
    with pytest.raises(BadRequest):
        take_head(bytearray(b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"))


def test_a_long_head_is_checked_in_linear_time():
    """One scan without going back: 10 000 fields, the last of them broken."""
    with pytest.raises(BadRequest):
        take_head(bytearray(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 10_000 + b"A : b\r\n\r\n"))


@pytest.mark.parametrize(("raw", "length", "data"), [(b"abcde", 5, b"abcde"), (CHUNKED, -1, b"wiki!")])
@given(draw=st.data())
def test_a_body_is_the_same_however_its_bytes_are_cut(raw, length, data, draw):
    cuts = draw.draw(st.lists(st.integers(0, len(raw)), max_size=6).map(sorted))
    body, buffer = Body(length, keep=100), bytearray()
    complete = False
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        assert not complete or start == end == len(raw)
        buffer += raw[start:end]
        complete = body.take(buffer)
    assert (complete, bytes(body.data), body.size, bytes(buffer)) == (True, data, len(data), b"")


def test_a_body_leaves_what_comes_behind_it():
    body, buffer = Body(-1, keep=100), bytearray(CHUNKED + b"GET")
    assert body.take(buffer)
    assert buffer == b"GET"


def test_a_body_over_what_is_kept_is_still_counted():
    body = Body(5, keep=2)
    body.take(bytearray(b"abcde"))
    assert (bytes(body.data), body.size) == (b"ab", 5)


@pytest.mark.parametrize("raw", [b"x\r\n", b"-1\r\n", b"2\r\nabc\r\n", b"1" * (MAX_HEAD + 1)])
def test_broken_chunk_framing_is_refused(raw):
    with pytest.raises(BadRequest):
        Body(-1, keep=100).take(bytearray(raw))
