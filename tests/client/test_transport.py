"""AiohttpTransport: one call is one wire attempt, and what is said about it is true."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest

from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.request import Request
from comity.client.tls import TLS
from comity.engine.call import Exchange
from comity.errors import BadResponse, ConnectFailed, ConnectionLost, OptionsError
from comity.policy.timeouts import Timeout
from tests.client.scripted import Peer, RecordedSlot, Scripted, answer, hang, in_chunks, ok, once, packed

LIMITS = Timeout()


@pytest.fixture
async def transport():
    transport = AiohttpTransport(max_body=1024 * 1024)
    yield transport
    await transport.aclose()


async def send(transport, url, method="GET", *, limits=LIMITS, slot=None, **options) -> Exchange:
    return await transport.send(Request(method, url, **options), limits, slot or RecordedSlot())


async def test_a_request_line_carries_the_url_byte_for_byte(transport):
    """PE-01, HI-03"""
    async with Scripted(answer(ok())) as server:
        for target in ("/f?sig=rX7%2FXCC%2Bw%3D&e=1%3A2.", "/a/../b//c;d?x[]=1&y={z}|", "/%7euser?a+b"):
            await send(transport, server.url + target)
            assert server.seen[-1].target == target
        await send(transport, server.url + "/a b?x=1 HTTP/1.1")
        assert server.seen[-1].line == "GET /a%20b?x=1%20HTTP/1.1 HTTP/1.1"


async def test_nothing_is_added_to_what_the_request_says(transport):
    async with Scripted(answer(ok())) as server:
        await send(transport, server.url + "/x", "POST", content=b"abc", headers={"X-A": "1"})
        assert (
            server.seen[0].raw
            == f"POST /x HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-A: 1\r\nContent-Length: 3\r\n\r\nabc".encode()
        )


async def test_an_ipv6_host_keeps_its_brackets(transport):
    """UH-01"""
    async with Scripted(answer(ok()), host="::1") as server:
        exchange = await send(transport, f"{server.url}/x")
        assert exchange.outcome.status == 200
        assert server.seen[0].all("host") == [f"[::1]:{server.port}"]


async def test_an_answer_comes_back_whole_with_lower_case_names(transport):
    """CP-062, CP-069"""
    async with Scripted(answer(ok(b"\x00\xff", "X-Odd: a", "x-odd: b", status="299 Whatever"))) as server:
        response = (await send(transport, server.url)).value
        assert (response.status_code, response.content) == (299, b"\x00\xff")
        assert response.headers.pairs == (("content-length", "2"), ("x-odd", "a"), ("x-odd", "b"))


async def test_header_values_are_utf_8_or_else_latin_1(transport):
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: \xc3\xbc\r\nB: \xfc\r\n\r\n"
    async with Scripted(answer(data)) as server:
        headers = (await send(transport, server.url)).value.headers
        assert (headers["a"], headers["b"]) == ("ü", "ü")


async def test_connections_are_used_again(transport):
    """CP-084"""
    async with Scripted(answer(ok())) as server:
        for _ in range(5):
            await send(transport, server.url)
        assert server.connections == 1


async def test_one_hundred_requests_at_once_need_no_more_connections_than_requests(transport):
    """CP-087"""
    async with Scripted(answer(ok())) as server:
        for _ in range(2):
            await asyncio.gather(*(send(transport, server.url) for _ in range(20)))
        assert server.connections == 20


@pytest.mark.parametrize("how", ["keep", "close", "1.0", "asked"])
async def test_a_connection_that_will_be_closed_is_not_used_again(transport, how):
    answers = {
        "keep": ok(),
        "close": ok(b"ok", "Connection: close"),
        "1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "asked": ok(),
    }
    headers = {"Connection": "close"} if how == "asked" else None
    async with Scripted(answer(answers[how])) as server:
        for _ in range(2):
            exchange = await send(transport, server.url, headers=headers)
            assert exchange.value.content == b"ok"
        assert server.connections == (1 if how == "keep" else 2)


async def test_a_connection_closed_while_it_rested_is_replaced_without_cost(transport):
    """KA-01"""
    async with Scripted(once(ok())) as server:
        for done in range(1, 11):
            exchange = await send(transport, server.url)
            assert exchange.outcome.status == 200
            await server.until(lambda server: server.open == 0)
            assert server.connections == done


async def test_no_connection_is_used_close_to_its_announced_end(transport):
    """KA-03"""
    async with Scripted(answer(ok(b"ok", "Keep-Alive: timeout=0"), b"")) as server:
        for _ in range(3):
            assert (await send(transport, server.url, "POST", content=b"x")).outcome.status == 200
        assert server.connections == 3


async def test_bytes_on_a_resting_connection_are_never_the_answer_to_a_later_request(transport):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"first"))
        await peer.send(ok(b"nobody asked"))
        await peer.gone()

    async with Scripted(script) as server:
        assert [(await send(transport, server.url)).value.content for _ in range(3)] == [b"first"] * 3


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temp", "308 Perm"])
async def test_a_redirect_is_an_answer(transport, status):
    """CP-068"""
    async with Scripted(answer(ok(b"", "Location: /elsewhere", status=status))) as server:
        response = (await send(transport, server.url)).value
        assert (response.status_code, response.headers["location"]) == (int(status[:3]), "/elsewhere")
        assert len(server.seen) == 1


async def test_cookies_are_masked_unless_asked_for_and_never_sent_back(transport):
    """CP-063, CP-070"""
    async with Scripted(answer(ok(b"", "Set-Cookie: a=1", "set-cookie: b=2"))) as server:
        masked = (await send(transport, server.url)).value
        shown = (await send(transport, server.url, expose_cookies=True)).value
        assert masked.headers.get_list("set-cookie") == ["***", "***"]
        assert shown.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert server.seen[1].all("cookie") == []


async def test_head_and_304_announce_a_length_without_a_body(transport):
    """LM-03"""
    async with Scripted(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nContent-Encoding: gzip\r\n\r\n")) as server:
        for _ in range(2):
            response = (await send(transport, server.url, "HEAD")).value
            assert (response.content, response.headers["content-length"]) == (b"", "1234")
        assert server.connections == 1
    async with Scripted(answer(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\n\r\n")) as server:
        for _ in range(2):
            response = (await send(transport, server.url)).value
            assert (response.status_code, response.content) == (304, b"")
        assert server.connections == 1


@pytest.mark.parametrize("framing", ["Content-Length: 38", "Transfer-Encoding: chunked"])
async def test_a_204_that_announces_a_body_is_the_last_answer_of_its_connection(transport, framing):
    """RFC 9112 section 6.3"""
    async with Scripted(answer(f"HTTP/1.1 204 No Content\r\n{framing}\r\n\r\n".encode())) as server:
        for _ in range(2):
            exchange = await send(transport, server.url)
            assert (exchange.outcome.status, exchange.value.content) == (204, b"")
        assert server.connections == 2


async def test_interim_answers_are_passed_over(transport):
    async with Scripted(
        answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", ok())
    ) as server:
        slot = RecordedSlot()
        assert (await send(transport, server.url, slot=slot)).outcome.status == 200
        assert slot.said == ["sent", "answered"]


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        (
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"3\r\nabc\r\n",
                b"2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n",
            ],
            b"abcde",
        ),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"cd", b"e"], b"abcde"),
        ([ok(packed(b"abcde"), "Content-Encoding: gzip")], b"abcde"),
        ([ok(brotli.compress(b"abcde"), "Content-Encoding: br")], b"abcde"),
        ([ok(b"", "Content-Encoding: gzip")], b""),
        ([ok(b"", "Content-Encoding: br")], b""),
        ([ok(packed(packed(b"abcde")), "Content-Encoding: gzip", "Content-Encoding: gzip")], b"abcde"),
        ([in_chunks(packed(b"abcde"), "Transfer-Encoding: gzip, chunked")], b"abcde"),
        ([in_chunks(packed(b"abcde"), "Transfer-Encoding: gzip", "Transfer-Encoding: Chunked")], b"abcde"),
        ([in_chunks(packed(packed(b"abcde")), "Content-Encoding: gzip", "Transfer-Encoding: gzip,chunked")], b"abcde"),
        ([in_chunks(b"abcde", "Transfer-Encoding: identity, chunked")], b"abcde"),
    ],
)
async def test_a_body_is_read_whole_however_it_is_framed(transport, parts, content):
    async with Scripted(answer(*parts)) as server:
        for _ in range(2):
            assert (await send(transport, server.url)).value.content == content
        assert server.connections == 1


@pytest.mark.parametrize(("coding", "good"), [("gzip", True), ("identity", True), ("x-foo", False)])
async def test_a_body_whose_framing_is_not_chunked_ends_with_the_connection_and_is_decoded(transport, coding, good):
    """RFC 9112, 6.3."""
    data = packed(b"abcde") if coding == "gzip" else b"abcde"
    async with Scripted(once(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: %b\r\n\r\n" % coding.encode(), data)) as server:
        exchange = await send(transport, server.url)
        assert (exchange.value.content if exchange.value else exchange.error.__class__) == (
            b"abcde" if good else BadResponse
        )


@pytest.mark.parametrize("content", [b"", bytes(50_000_000)])
async def test_an_upgrade_that_nobody_asked_for_is_a_bad_response(transport, content):
    """RFC 9110, 15.2.2: a server must not answer 101 to a request without Upgrade."""

    async def script(peer: Peer) -> None:
        await peer.request(body=False)
        await peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        await asyncio.Event().wait()

    async with Scripted(script) as server, asyncio.timeout(5):
        exchange = await send(transport, server.url, "POST", content=content)
        assert (exchange.outcome.failure, exchange.outcome.sent, exchange.value) == ("bad", "yes", None)
        assert "another protocol" in str(exchange.error)
        await send(transport, server.url, "POST", content=content)
        assert server.connections == 2


async def test_a_body_without_a_length_ends_with_the_connection(transport):
    async with Scripted(once(b"HTTP/1.1 200 OK\r\n\r\nabc", b"de")) as server:
        assert (await send(transport, server.url)).value.content == b"abcde"


async def test_a_reset_is_no_end_of_a_body():
    transport = AiohttpTransport()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nabc")
        peer.reset()

    async with Scripted(script) as server:
        exchange = await send(transport, server.url)
        assert isinstance(exchange.error, (BadResponse, ConnectionLost))
        assert exchange.value is None
    await transport.aclose()


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n12345", "5 of 20 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", "5 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123", "3 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "head"),
        (b"HTTP/1.1 2", "head"),
        (ok(packed(b"a" * 99)[:-8], "Content-Encoding: gzip"), "checksum"),
        (ok(packed(b"a" * 99)[:-1] + b"\1", "Content-Encoding: gzip"), "checksum"),
    ],
)
async def test_an_answer_that_is_cut_or_damaged_is_no_answer(transport, data, detail):
    """LM-01, CP-09"""
    async with Scripted(once(data)) as server:
        exchange = await send(transport, server.url)
        assert exchange.value is None
        assert (exchange.outcome.failure, exchange.outcome.sent) == ("truncated", "yes")
        assert isinstance(exchange.error, BadResponse)
        assert detail in str(exchange.error)
        head = exchange.error.response
        assert (head is None) is (detail == "head")
        if head is not None:
            assert (head.status_code, head.content, len(head.headers)) == (200, b"", data.count(b": "))


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 000 None\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 099 None\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 600 + b"\r\n",
        b"HTTP/1.1 200 OK\r\n" + (b"X: " + b"a" * 60_000 + b"\r\n") * 20,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 30,
        ok(b"plain", "Content-Encoding: gzip"),
        ok(b"coded", "Content-Encoding: br"),
        ok(b"coded", "Content-Encoding: x-foo"),
        ok(packed(b"coded"), "Content-Encoding: br, gzip"),
        ok(packed(b"coded"), "Content-Encoding: br", "Content-Encoding: gzip"),
        in_chunks(b"coded", "Transfer-Encoding: br, chunked"),
        in_chunks(b"coded", "Transfer-Encoding: x-foo", "Transfer-Encoding: chunked"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + ok(),
        ok(b"", "Content-Encoding: gzip, gzip, gzip, gzip, gzip"),
    ],
)
async def test_garbage_is_a_bad_response_and_the_transport_stays_usable(transport, data):
    async def script(peer: Peer) -> None:
        if (await peer.request()).target == "/good":
            await peer.send(ok())
        else:
            await peer.send(data)
        await peer.gone()

    async with Scripted(script) as server:
        exchange = await send(transport, server.url)
        assert (exchange.outcome.failure, exchange.outcome.sent) == ("bad", "yes")
        assert isinstance(exchange.error, BadResponse)
        assert (await send(transport, server.url + "/good")).outcome.status == 200


async def test_a_broken_chunk_after_the_head_ends_the_read_at_once(transport):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await peer.server.until(lambda _: True)
        await peer.send(b"zz\r\n")
        await peer.gone()

    async with Scripted(script) as server, asyncio.timeout(5):
        assert isinstance((await send(transport, server.url)).error, BadResponse)


@pytest.mark.parametrize("framing", ["chunked", "length", "gzip"])
async def test_a_body_over_the_cap_is_refused_while_it_is_read(transport, framing):
    """HB-01, HB-03"""
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        # What the server has sent is to say what the client has read, not how large the kernel's buffers are.
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        await peer.request()
        if framing == "length":
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n")
        elif framing == "gzip":
            await peer.send(ok(packed(b"\0" * 100_000_000), "Content-Encoding: gzip"))
        else:
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while framing == "chunked":
            await peer.send(b"10000\r\n" + b"\0" * 65536 + b"\r\n")
            sent += 65536
        await peer.gone()

    async with Scripted(script) as server:
        exchange = await send(transport, server.url)
        assert exchange.outcome.failure == "bad"
        assert "max_body" in str(exchange.error)
        await server.until(lambda server: server.open == 0)
    assert sent < 3 * 1024 * 1024


async def test_without_a_cap_a_large_body_passes():
    transport = AiohttpTransport(max_body=None)
    body = bytes(range(256)) * 20_000
    async with Scripted(answer(ok(body))) as server:
        assert (await send(transport, server.url)).value.content == body
    await transport.aclose()


@pytest.mark.parametrize("max_body", [-1, 1.5, True, "much"])
def test_a_cap_that_is_no_size_is_refused(max_body):
    with pytest.raises(OptionsError, match="max_body"):
        AiohttpTransport(max_body=max_body)


async def test_a_large_body_is_sent_whole(transport):
    body = bytes(range(256)) * 20_000
    async with Scripted(answer(ok())) as server:
        exchange = await send(transport, server.url, "PUT", content=body)
        assert exchange.outcome.status == 200
        assert server.seen[0].body == body


async def test_an_answer_that_comes_before_the_request_is_written_ends_the_upload(transport):
    async def script(peer: Peer) -> None:
        await peer.request(body=False)
        await peer.send(ok(b"too large", status="413 Too Large"))
        await asyncio.Event().wait()

    async with Scripted(script) as server, asyncio.timeout(5):
        exchange = await send(transport, server.url, "PUT", content=bytes(50_000_000))
        assert (exchange.outcome.status, exchange.value.content) == (413, b"too large")


async def test_a_closed_port_is_a_failed_connection_and_nothing_was_sent(transport):
    """CP-081"""
    async with Scripted(hang) as server:
        url = server.url
    slot = RecordedSlot()
    exchange = await send(transport, url, slot=slot)
    assert (exchange.outcome.failure, exchange.outcome.sent, slot.said) == ("connect", "no", [])
    assert isinstance(exchange.error, ConnectFailed)
    assert "nothing was sent" in str(exchange.error)


async def test_a_hang_up_after_the_request_on_a_fresh_connection_was_sent(transport):
    """ID-01"""

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async with Scripted(script) as server:
        slot = RecordedSlot()
        exchange = await send(transport, server.url, "POST", slot=slot)
        assert (exchange.outcome.failure, exchange.outcome.sent, slot.said) == ("lost", "yes", ["sent"])
        assert isinstance(exchange.error, ConnectionLost)
        assert "outcome is unknown" in str(exchange.error)
        assert len(server.seen) == 1


async def test_a_hang_up_on_a_used_connection_may_have_been_sent(transport):
    """KA-01"""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok())
        await peer.request()

    async with Scripted(script) as server:
        await send(transport, server.url)
        exchange = await send(transport, server.url)
        assert (exchange.outcome.failure, exchange.outcome.sent) == ("lost", "maybe")
        assert len(server.seen) == 2


async def test_half_an_upload_may_have_been_sent(transport):
    async def script(peer: Peer) -> None:
        await peer.request(body=False)
        peer.reset()

    async with Scripted(script) as server:
        slot = RecordedSlot()
        exchange = await send(transport, server.url, "PUT", content=bytes(50_000_000), slot=slot)
        assert (exchange.outcome.failure, exchange.outcome.sent, slot.said) == ("lost", "maybe", ["sent"])


@pytest.mark.parametrize("script", [hang, answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")])
async def test_cancelling_closes_the_connection(transport, script):
    """CA-01"""
    async with Scripted(script) as server:
        slot = RecordedSlot()
        task = asyncio.create_task(send(transport, server.url, slot=slot))
        await slot.left.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda server: server.connections == 1 and server.open == 0)


async def test_cancelling_at_any_step_leaves_no_socket(transport):
    """CA-01"""
    async with Scripted(answer(ok(b"x" * 100_000))) as server:
        for steps in range(12):
            task = asyncio.create_task(send(transport, server.url, "POST", content=b"y" * 100_000))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (await send(transport, server.url)).outcome.status == 200
        async with asyncio.timeout(0.5):
            await transport.aclose()
        await server.until(lambda server: server.open == 0)


async def test_closing_ends_resting_connections_at_once_and_may_be_repeated(transport):
    """PX-06"""
    async with Scripted(answer(ok())) as server:
        await asyncio.gather(*(send(transport, server.url) for _ in range(5)))
        async with asyncio.timeout(2):
            await transport.aclose()
            await transport.aclose()
        await server.until(lambda server: server.open == 0)


class MeetingLoop:
    """A loop in the midst of whose look-over another thread begins to use the transport."""

    def __init__(self, meet: Callable[[], None]) -> None:
        self._meet = meet

    def is_closed(self) -> bool:
        meet, self._meet = self._meet, lambda: None
        meet()
        return False


def test_a_loop_that_comes_while_another_thread_looks_for_closed_ones_keeps_its_connections():
    transport = AiohttpTransport()
    newcomers = [MeetingLoop(lambda: None) for _ in range(2)]
    threads = []

    def meet() -> None:
        thread = threading.Thread(target=transport._pool, args=(newcomers[0],))
        threads.append(thread)
        thread.start()
        thread.join(0.05)  # with a lock it goes on only after this look-over

    first = MeetingLoop(meet)
    transport._pool(first)
    transport._pool(newcomers[1])
    threads[0].join()
    assert set(transport._pools) == {first, *newcomers}


async def test_a_child_process_uses_no_connection_of_its_parent(transport):
    """LF-03"""
    async with Scripted(answer(ok())) as server:
        await send(transport, server.url)
        transport.restart()
        await send(transport, server.url)
        assert server.connections == 2
        for pool in transport._parents.values():
            await pool.aclose()


def test_one_transport_serves_one_event_loop_after_another():
    transport = AiohttpTransport()

    async def visit() -> int:
        async with Scripted(answer(ok())) as server:
            exchange = await send(transport, server.url)
            await transport.aclose()
            return exchange.outcome.status

    assert [asyncio.run(visit()) for _ in range(3)] == [200, 200, 200]


PEM = Path(__file__).parent.parent / "testing" / "upstream_loopback.pem"


@pytest.fixture(scope="module")
def certificate():
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(PEM)
    return server_side, TLS(ca=PEM.read_text())


async def test_tls_has_a_time_of_its_own(certificate):
    """HT-044"""
    server_side, tls = certificate
    transport = AiohttpTransport(tls=tls)
    async with Scripted(answer(ok()), tls=server_side) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        fresh, reused = [(await send(transport, url)).timings for _ in range(2)]
        assert min(fresh.dns, fresh.connect, fresh.tls) > 0
        assert (reused.dns, reused.connect, reused.tls) == (0, 0, 0)
    await transport.aclose()


async def test_a_certificate_that_is_not_trusted_is_a_failed_connection(certificate, transport):
    async with Scripted(answer(ok()), tls=certificate[0]) as server:
        exchange = await send(transport, server.url)
        assert (exchange.outcome.failure, exchange.outcome.sent) == ("connect", "no")
        assert "certificate" in str(exchange.error)
