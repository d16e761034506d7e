"""Streaming: the body is read in the caller's block; everything is given back when that is left."""

from __future__ import annotations

import asyncio
import sys

import brotli
import pytest

from comity import Accept, AsyncClient, BadResponse, Client, OptionsError, StatusError, TimedOut, Timeout, TokenSource
from comity.policy.events import Event
from comity.testing import Answer, ScriptedTransport
from tests.client.scripted import OK, Peer, Scripted, answer, in_turn, ok, once, packed, status

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

begun = asyncio.create_task
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.send(HEAD + b"5\r\nfirst\r\n")
    await peer.gone()


async def test_the_body_comes_as_it_was_sent_and_the_attempts_are_there_at_the_end():
    async with Scripted(answer(ok(b"abcdefg"))) as server, AsyncClient(server.url) as api:
        async with api.stream("GET", "/") as response:
            pieces = [piece async for piece in response.iter_bytes(3)]
        assert (response.status_code, pieces, len(response.attempts)) == (200, [b"abc", b"def", b"g"], 1)
        await api.get("/")
        assert server.connections == 1


class Queued(asyncio.Event):
    """Is set when a request waits for its turn, in whichever thread."""

    def __init__(self) -> None:
        super().__init__()
        self._tell = asyncio.get_running_loop().call_soon_threadsafe

    def __call__(self, event: Event) -> None:
        if event.type == "queued":
            self._tell(self.set)


async def test_the_slot_is_held_until_the_block_is_left():
    queued = Queued()
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, concurrency=1, on_event=queued) as api:
        async with api.stream("GET", "/"):
            second = begun(api.get("/"))
            await queued.wait()
            assert len(server.seen) == 1
        assert (await second).status_code == 200


@pytest.mark.parametrize("error", [None, ValueError])
async def test_leaving_early_closes_the_connection(error):
    async with Scripted(endless) as server, AsyncClient(server.url, concurrency=1) as api:
        with pytest.raises(error) if error else pytest.MonkeyPatch.context():
            async with api.stream("GET", "/") as response:
                assert await anext(response.iter_bytes()) == b"first"
                if error:
                    raise error
        await server.until(lambda server: server.open == 0)
        assert api.stats().running == 0


async def test_a_cancel_while_reading_leaves_no_socket_and_no_slot():
    async with Scripted(endless) as server, AsyncClient(server.url) as api:
        got = asyncio.Event()

        async def read() -> None:
            async with api.stream("GET", "/") as response:
                async for _ in response.iter_bytes():
                    got.set()

        task = asyncio.create_task(read())
        await got.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda server: server.open == 0)
        assert api.stats().running == 0


async def test_a_body_that_breaks_is_raised_with_its_attempts_and_not_sent_again():
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhello"
    async with Scripted(once(cut)) as server, AsyncClient(server.url) as api:
        async with api.stream("GET", "/") as response:
            with pytest.raises(BadResponse, match="5 of 20 bytes") as caught:
                await response.read()
            with pytest.raises(BadResponse):
                await response.read()
        assert (len(caught.value.attempts), len(server.seen)) == (1, 1)


@pytest.mark.parametrize("framing", ["length", "chunked", "broken"])
async def test_what_came_before_a_break_is_handed_out_before_it_is_raised(framing):
    cut = {
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhello",
        "chunked": HEAD + b"5\r\nhello\r\n",
        "broken": HEAD + b"5\r\nhello\r\nwrong\r\n",
    }
    async with Scripted(once(cut[framing])) as server, AsyncClient(server.url) as api:
        async with api.stream("GET", "/") as response:
            pieces = response.iter_bytes()
            assert await anext(pieces) == b"hello"
            with pytest.raises(BadResponse):
                await anext(pieces)
        await server.until(lambda server: server.open == 0)


async def test_a_standstill_of_the_body_is_timed_out():
    async with Scripted(endless) as server, AsyncClient(server.url, timeout=Timeout(idle=0.05)) as api:
        async with api.stream("GET", "/") as response:
            with pytest.raises(TimedOut) as caught:
                await response.read()
        assert (caught.value.phase, len(caught.value.attempts)) == ("idle", 1)


async def test_a_head_that_asks_again_is_retried_before_anything_is_handed_out():
    async with (
        Scripted(in_turn(status(503, "Retry-After: 0"), ok(b"fine"))) as server,
        AsyncClient(server.url, retry=1) as api,
        api.stream("GET", "/") as response,
    ):
        assert await response.read() == b"fine"
        assert [each.status for each in response.attempts] == [503, 200]


async def test_an_answer_that_cannot_be_read_leaves_its_cookies_too():
    odd = status(503, "Retry-After: 0", "Set-Cookie: a=1", f"Content-Encoding: {', '.join(['gzip'] * 9)}")
    async with (
        Scripted(in_turn(odd, OK)) as server,
        AsyncClient(server.url, cookies=True, retry=1) as api,
        api.stream("GET", "/"),
    ):
        assert [each.all("cookie") for each in server.seen] == [[], ["a=1"]]


async def test_redirects_are_followed_before_the_block():
    async with (
        Scripted(in_turn(status(302, "Location: /new"), ok(b"there"))) as server,
        AsyncClient(server.url, follow_redirects=True) as api,
        api.stream("GET", "/old") as response,
    ):
        assert await response.read() == b"there"
        assert [each.target for each in server.seen] == ["/old", "/new"]
        assert (response.url, [each.status_code for each in response.history]) == (f"{server.url}/new", [302])


async def test_a_token_that_is_refused_is_renewed_before_the_block():
    tokens = iter(["t1", "t2"])
    async with (
        Scripted(in_turn(status(401), ok(b"mine"))) as server,
        AsyncClient(server.url, auth=TokenSource(lambda: (next(tokens), 60))) as api,
        api.stream("GET", "/") as response,
    ):
        assert await response.read() == b"mine"
        assert [each.all("authorization") for each in server.seen] == [["Bearer t1"], ["Bearer t2"]]
        assert [(each.number, each.status) for each in response.attempts] == [(1, 401), (2, 200)]
        assert "authorization" not in response.request.headers


async def test_cookies_are_taken_before_the_block_and_sent_with_the_next():
    async with Scripted(answer(ok(b"x", "Set-Cookie: a=1"))) as server, AsyncClient(server.url, cookies=True) as api:
        async with api.stream("GET", "/") as response:
            assert "a=1" not in str(response.headers)
            await api.get("/")
        async with api.stream("GET", "/"):
            pass
        assert [each.all("cookie") for each in server.seen] == [[], ["a=1"], ["a=1"]]


async def test_an_error_status_is_raised_with_its_body():
    async with Scripted(answer(status(404, body=b"none"))) as server, AsyncClient(server.url) as api:
        with pytest.raises(StatusError) as caught:
            async with api.stream("GET", "/"):
                pass
        assert caught.value.response.content == b"none"


async def test_an_error_status_that_is_not_to_be_raised_is_handed_out():
    async with Scripted(answer(status(500, body=b"none"))) as server, AsyncClient(server.url, retry=None) as api:
        async with api.stream("GET", "/", raise_for="never") as response:
            body = await response.read()
        assert (response.status_code, body) == (500, b"none")


async def test_gzip_is_undone_and_its_trailer_is_checked():
    """CP-09: a stream that is cut before its end is not complete."""
    whole = packed(b"word " * 9000)
    bodies = in_turn(ok(whole, "Content-Encoding: gzip"), ok(whole[:-4], "Content-Encoding: gzip"))
    async with Scripted(bodies) as server, AsyncClient(server.url) as api:
        async with api.stream("GET", "/") as response:
            assert await response.read() == b"word " * 9000
        async with api.stream("GET", "/") as response:
            with pytest.raises(BadResponse, match="checksum"):
                await response.read()


@pytest.mark.parametrize(("coding", "coded"), [("br", brotli.compress), ("zstd", zstd.compress)])
async def test_br_and_zstd_are_undone_and_their_ends_are_checked(coding, coded):
    """CP-09"""
    whole = coded(b"word " * 90_000)
    bodies = in_turn(ok(whole, f"Content-Encoding: {coding}"), ok(whole[:-2], f"Content-Encoding: {coding}"))
    async with Scripted(bodies) as server, AsyncClient(server.url) as api:
        async with api.stream("GET", "/") as response:
            assert await response.read() == b"word " * 90_000
        async with api.stream("GET", "/") as response:
            with pytest.raises(BadResponse, match=coding):
                await response.read()


async def test_a_scripted_break_is_raised_behind_the_content():
    transport = ScriptedTransport(Answer(content=b"half", fault="truncated"))
    async with AsyncClient("http://h.example", transport=transport) as api, api.stream("GET", "/") as response:
        pieces = response.iter_bytes()
        assert await anext(pieces) == b"half"
        with pytest.raises(BadResponse, match="scripted"):
            await anext(pieces)


async def test_a_second_reader_is_refused_and_takes_no_limit_from_the_first():
    brief = Timeout(idle=0.2)
    async with (
        Scripted(endless) as server,
        AsyncClient(server.url) as api,
        api.stream("GET", "/", timeout=brief) as response,
    ):
        pieces = response.iter_bytes()
        assert await anext(pieces) == b"first"
        first = begun(anext(pieces))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="being read already"):
            await response.read()
        with pytest.raises(TimedOut, match="idle"):
            await first


async def test_who_still_reads_when_the_block_is_left_does_not_take_the_part_for_the_whole():
    async with Scripted(endless) as server, AsyncClient(server.url) as api:
        async with api.stream("GET", "/") as response:
            pieces = response.iter_bytes()
            assert await anext(pieces) == b"first"
            rest = begun(response.read())
            await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="was left"):
            await rest


async def test_no_piece_of_a_bomb_is_large():
    bomb = packed(bytes(50_000_000))
    async with Scripted(answer(ok(bomb, "Content-Encoding: gzip"))) as server, AsyncClient(server.url) as api:
        async with api.stream("GET", "/") as response:
            sizes = [len(piece) async for piece in response.iter_bytes()]
        assert (sum(sizes), max(sizes) <= 256 * 1024) == (50_000_000, True)


async def test_a_bomb_lets_others_run_between_its_pieces():
    bomb = brotli.compress(bytes(20_000_000), quality=5)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    coded = answer(ok(bomb, "Content-Encoding: br"))
    async with Scripted(coded) as server, AsyncClient(server.url) as api, api.stream("GET", "/") as response:
        pieces = response.iter_bytes()
        await anext(pieces)
        beside = begun(others())
        await asyncio.sleep(0)
        began, count = turns, 0
        async for _ in pieces:
            count += 1
        beside.cancel()
        assert turns - began >= count > 20


async def test_a_bomb_ends_with_the_attempt():
    bomb = zstd.compress(bytes(100_000_000)) * 100
    async with Scripted(answer(ok(bomb, "Content-Encoding: zstd"))) as server, AsyncClient(server.url, retry=0) as api:
        size = 0

        async def read() -> None:
            nonlocal size
            async with api.stream("GET", "/", timeout=0.2) as response:
                async for piece in response.iter_bytes():
                    size += len(piece)

        with pytest.raises(TimedOut, match="attempt"):
            await read()
        assert size < 10_000_000_000


async def test_lines_arrive_as_they_are_sent_whatever_ends_them():
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"8\r\ndata: a\r\r\n")
        await go_on.wait()
        await peer.send(b"a\r\n\nb\rc\x0cd\n\ne\xc3\r\n1\r\n\xa9\r\n0\r\n\r\n")

    async with Scripted(script) as server, AsyncClient(server.url) as api, api.stream("GET", "/") as response:
        lines = response.iter_lines()
        assert await anext(lines) == "data: a"
        go_on.set()
        assert [line async for line in lines] == ["b", "c\x0cd", "", "eé"]


async def test_rules_for_whole_answers_are_refused():
    async with AsyncClient("http://h.example") as api:
        with pytest.raises(OptionsError, match="accept"):
            async with api.stream("GET", "/", accept=Accept("fail", json="error")):
                pass


async def test_threads_read_the_same_way():
    answers = [ok(b"a\nb"), ok(b"left"), b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhello"]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answers.pop(0))

    def read(url: str) -> None:
        with Client(url, concurrency=1) as api:
            with api.stream("GET", "/") as response:
                assert list(response.iter_lines()) == ["a", "b"]
            assert len(response.attempts) == 1
            with api.stream("GET", "/"):
                pass
            with api.stream("GET", "/") as response, pytest.raises(BadResponse):
                response.read()
            assert api.stats().running == 0

    async with Scripted(script) as server:
        await asyncio.to_thread(read, server.url)
