"""The faults are real: what a client meets on the wire, byte for byte."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import aiohttp
import pytest

from comity.testing import Upstream
from tests.testing.upstream_client import ask, broken_bytes, exchange_bytes, parse, request

MS = 1_000_000


@pytest.mark.parametrize(
    ("target", "received"), [("/reset", b""), ("/reset?after=headers", b"\r\n\r\n"), ("/flaky/a?code=reset", b"")]
)
async def test_a_reset_reaches_the_client_as_rst(target, received):
    async with Upstream() as up:
        got, error = await broken_bytes(up, request(target))
    assert isinstance(error, ConnectionResetError)
    assert got.endswith(received)
    assert bool(got) is bool(received)


async def test_a_reset_can_come_in_the_middle_of_the_body():
    async with Upstream() as up:
        got, error = await broken_bytes(up, request("/reset?after=body"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert isinstance(error, ConnectionResetError)
    assert b"Content-Length: 64" in head
    assert len(body) == 32


async def test_a_reset_comes_after_the_whole_request_was_taken():
    """The server had the request and counts it, whatever the client sees."""
    async with Upstream(capture=True) as up:
        _, error = await broken_bytes(up, request("/reset", method="POST", body=b"x" * 100_000))
        (arrival,) = up.log
    assert isinstance(error, ConnectionResetError)
    assert (arrival.method, len(arrival.body), arrival.status, arrival.first_byte) == ("POST", 65536, None, None)


async def test_a_body_is_cut_under_its_right_content_length():
    async with Upstream() as up:
        got, error = await broken_bytes(up, request("/truncate"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert (error, len(body)) == (None, 32)
    assert b"Content-Length: 64" in head


async def test_a_chunked_body_ends_before_its_last_chunk():
    async with Upstream() as up:
        got, error = await broken_bytes(up, request("/truncate?kind=chunked"))
    body = got.partition(b"\r\n\r\n")[2]
    assert error is None
    assert body.startswith(b"20\r\n")
    assert not body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("kind", ["length", "chunked"])
async def test_a_client_notices_the_cut(kind):
    async with (
        Upstream() as up,
        aiohttp.ClientSession() as session,
        session.get(f"{up.url}/truncate?kind={kind}") as answer,
    ):
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_gzip_body_in_whole_framing_lacks_its_trailer():
    """The framing is right, only the gzip stream shows that something is missing."""
    async with Upstream() as up:
        reply = await ask(up, "/truncate?kind=gzip")
    assert reply.header("content-length") == str(len(reply.body))
    decoder = zlib.decompressobj(wbits=31)
    assert decoder.decompress(reply.body).startswith(b'{"cut"')
    assert not decoder.eof


async def test_a_gzip_body_can_carry_a_wrong_checksum():
    async with Upstream() as up:
        reply = await ask(up, "/truncate?kind=crc")
    with pytest.raises(gzip.BadGzipFile, match="CRC"):
        gzip.decompress(reply.body)


@pytest.mark.parametrize(("after", "got"), [("request", 0), ("headers", 1), ("body", 1)])
async def test_a_hung_answer_never_ends_and_the_client_may_leave(after, got):
    async with Upstream() as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(request(f"/hang?after={after}"))
        if got:
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        await up.until(lambda up: up.stats().total.in_flight == 1)
        writer.close()
        await up.until(lambda up: up.stats().total.in_flight == 0)
        assert up.stats().lost == 1
        (arrival,) = up.log
        assert (arrival.first_byte is not None, arrival.finished is not None) == (bool(got), True)


async def test_a_slow_body_begins_at_once_and_drips():
    async with Upstream() as up:
        reply = await ask(up, "/slow-body?chunks=3&ms=15&bytes=4")
        (arrival,) = up.log
    assert reply.body == b"." * 12
    # Three gaps, each at least 15 ms by the loop's clock, whose timers may be a millisecond early.
    assert arrival.finished - arrival.first_byte >= 42 * MS


async def test_a_slow_body_of_no_chunks_is_empty():
    async with Upstream() as up:
        assert (await ask(up, "/slow-body?chunks=0&ms=0")).body == b""


async def test_an_endless_body_goes_at_the_pace_of_its_reader():
    """It can be stopped at any size, and the server holds none of it in memory."""
    async with Upstream() as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(request("/endless"))
        assert len(await reader.readexactly(8 << 20)) == 8 << 20
        writer.close()
        await up.until(lambda up: up.stats().lost == 1)


async def test_a_long_body_can_have_any_size():
    async with Upstream() as up:
        assert len((await ask(up, "/endless?bytes=1000001")).body) == 1_000_001


@pytest.mark.parametrize(("close", "announced"), [("yes", True), ("silent", False)])
async def test_a_connection_can_be_closed_with_or_without_a_word(close, announced):
    """Without a word, the next request on that connection meets its end."""
    async with Upstream() as up:
        reply = parse(await exchange_bytes(up, request(f"/ok/1?close={close}")))
    assert reply.json() == {"id": "1"}
    assert (reply.header("connection") == "close") is announced


async def test_a_connection_can_be_reset_after_a_whole_answer():
    async with Upstream() as up:
        _, error = await broken_bytes(up, request("/ok/1?close=reset"))
    assert isinstance(error, ConnectionResetError)


async def test_an_idle_connection_is_closed_after_the_announced_time():
    """The hint is sent, and kept."""
    async with Upstream(keep_alive=0.05) as up:
        reply = parse(await exchange_bytes(up, request("/ok/1")))
        (arrival,) = up.log
    assert reply.header("keep-alive") == "timeout=0"
    assert reply.header("connection") is None
    assert arrival.status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"hello\r\n\r\n",
        b"GET /ok/1 HTTP/1.1\r\n\r\n",
        b"GET /ok/1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /ok/1 HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n",
        b"GET /ok/1 HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n",
        b"POST /ok/1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_request_is_refused_and_the_connection_closed(raw):
    async with Upstream() as up:
        reply = parse(await exchange_bytes(up, raw))
    assert (reply.status, reply.header("connection")) == (400, "close")


async def half_closed(up: Upstream, sent: bytes) -> bytes:
    """Send bytes, close this half of the connection, and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
    try:
        writer.write(sent)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "target", ["/ok/1", "/delay/30", "/slow-body?chunks=3&ms=5", "/slots/a?ms=10", "/ok/1?close=yes"]
)
async def test_a_client_that_closes_its_half_after_the_request_is_answered(target):
    """RFC 9112, 9.6"""
    async with Upstream() as up, asyncio.timeout(5):
        assert parse(await half_closed(up, request(target))).status == 200
        await up.until(lambda up: up.stats().open_connections == 0)
        assert (up.stats().lost, up.stats().total.in_flight) == (0, 0)


async def test_so_is_one_that_sent_several_or_a_body():
    async with Upstream() as up, asyncio.timeout(5):
        raw = await half_closed(up, request("/delay/20") + request("/ok/1") + request("/echo", method="PUT", body=b"x"))
        assert raw.count(b"HTTP/1.1 200") == 3
        await up.until(lambda up: up.stats().open_connections == 0)


@pytest.mark.parametrize("sent", [b"", b"GET /ok/1 HTT", request("/echo", method="PUT", body=b"xy")[:-1]])
async def test_half_a_request_is_not_waited_for_when_its_client_closes(sent):
    async with Upstream() as up, asyncio.timeout(5):
        assert await half_closed(up, sent) == b""
        await up.until(lambda up: up.stats().open_connections == 0)


@pytest.mark.parametrize("before", [b"", request("/delay/10")])
async def test_what_would_never_be_answered_ends_when_its_client_closes(before):
    async with Upstream() as up, asyncio.timeout(5):
        raw = await half_closed(up, before + request("/hang"))
        assert raw.count(b"HTTP/1.1") == bool(before)
        await up.until(lambda up: up.stats().open_connections == 0)
        assert up.stats().lost == 1


async def test_what_comes_behind_a_request_in_the_works_waits_for_its_turn():
    body = b"x" * 2_000_000
    async with Upstream() as up:
        sent = request("/delay/20") + request("/echo", method="PUT", headers="Connection: close\r\n", body=body)
        raw = await exchange_bytes(up, sent)
        first, second = up.log
    assert parse(raw[raw.index(b"HTTP/1.1 200", 20) :]).json()["body"]["text"] == body.decode()
    assert second.at >= first.finished
