"""Limits and timings of one attempt: which limit ends which phase, and where the time went.

The waits here are real, because the phases are those of real sockets; each test waits for one short limit.
"""

from __future__ import annotations

import asyncio
import socket
from time import monotonic_ns

import pytest

from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.request import Request
from comity.client.watch import Watch
from comity.engine.call import Exchange
from comity.errors import TimedOut
from comity.policy.timeouts import Timeout
from tests.client.scripted import Peer, RecordedSlot, Scripted, answer, hang, ok

NONE = {"connect": None, "send": None, "request": None, "response": None, "idle": None, "attempt": None}
SHORT = 0.25
LARGE = bytes(50_000_000)


@pytest.fixture
async def transport():
    transport = AiohttpTransport()
    yield transport
    await transport.aclose()


async def send(transport, url, method="GET", *, slot=None, content=None, **limits) -> Exchange:
    limits = Timeout(**(NONE | limits))
    return await transport.send(Request(method, url, content=content), limits, slot or RecordedSlot())


async def never_read(peer: Peer) -> None:
    """Take the head of a request and none of its body."""
    await peer.request(body=False)
    await asyncio.Event().wait()


async def stall(peer: Peer) -> None:
    """Answer with half a body and keep the connection."""
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
    await peer.gone()


@pytest.mark.parametrize(
    ("script", "content", "limit", "phase", "sent"),
    [
        (hang, None, {"response": SHORT}, "response", "yes"),
        (hang, None, {"attempt": SHORT}, "attempt", "yes"),
        (hang, None, {"response": SHORT, "attempt": 30}, "response", "yes"),
        (hang, None, {"response": 30, "attempt": SHORT}, "attempt", "yes"),
        (stall, None, {"idle": SHORT}, "idle", "yes"),
        (stall, None, {"attempt": SHORT}, "attempt", "yes"),
        (stall, None, {"idle": 30, "response": 0.001 + SHORT, "attempt": 2 * SHORT}, "attempt", "yes"),
        (never_read, LARGE, {"send": SHORT}, "send", "maybe"),
        (never_read, LARGE, {"request": SHORT}, "request", "maybe"),
        (never_read, LARGE, {"idle": SHORT}, "idle", "maybe"),
        (never_read, LARGE, {"attempt": SHORT}, "attempt", "maybe"),
    ],
)
async def test_a_limit_ends_its_phase_and_the_connection(transport, script, content, limit, phase, sent):
    """CP-031, HT-050, HT-051, HT-052, HT-053, HT-054, HT-055, SB-01"""
    async with Scripted(script) as server:
        began = monotonic_ns()
        exchange = await send(transport, server.url, "POST" if content else "GET", content=content, **limit)
        took = (monotonic_ns() - began) / 1e9
        error = exchange.error
        assert isinstance(error, TimedOut)
        assert (error.phase, error.sent, exchange.outcome.failure) == (phase, sent, "timeout")
        assert error.seconds == limit[phase]
        assert took >= error.seconds
        if script is not never_read:
            await server.until(lambda server: server.open == 0)
        assert len(server.seen) == 1


async def test_connecting_has_its_limit(transport):
    """HT-050"""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    # With its backlog full, the kernel lets further connection requests wait.
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", port))
    try:
        exchange = await send(transport, f"http://127.0.0.1:{port}", connect=SHORT)
    finally:
        for each in (listener, *fillers):
            each.close()
    assert isinstance(exchange.error, TimedOut)
    assert (exchange.error.phase, exchange.error.sent, exchange.outcome.failure) == ("connect", "no", "timeout")


@pytest.mark.parametrize("script", [hang, stall])
async def test_the_deadline_of_the_call_ends_an_attempt(transport, script):
    async with Scripted(script) as server:
        slot = RecordedSlot(deadline=monotonic_ns() + int(SHORT * 1e9))
        exchange = await send(transport, server.url, slot=slot, attempt=30)
        assert isinstance(exchange.error, TimedOut)
        assert (exchange.error.phase, exchange.outcome.failure, exchange.outcome.sent) == (
            "deadline",
            "deadline",
            "yes",
        )
        assert monotonic_ns() >= slot.deadline


async def test_a_deadline_that_is_over_sends_nothing(transport):
    async with Scripted(answer(ok())) as server:
        slot = RecordedSlot(deadline=monotonic_ns() - 1)
        exchange = await send(transport, server.url, slot=slot)
        assert (exchange.outcome.failure, exchange.outcome.sent, slot.said) == ("deadline", "no", [])
        assert server.connections == 0


async def test_a_slow_but_steady_answer_may_take_longer_than_any_pause(transport):
    """SB-03"""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n")
        for _ in range(30):
            await pause(0.02)
            await peer.send(b"x")
        await peer.gone()

    async with Scripted(script) as server:
        exchange = await send(transport, server.url, idle=0.5)
        assert exchange.value.content == b"x" * 30
        assert exchange.timings.download > 0.5


SLOW_HEAD = [b"HTTP/1.1 ", b"200 ", b"OK\r\n", b"A: b\r\n", b"A: b\r\n", b"Content-", b"Length: 0\r\n", b"\r\n"]


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
async def test_a_slow_but_steady_head_is_held_to_the_pauses_in_it_and_not_to_its_first_byte(transport, before):
    """SB-03"""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(before)
        for piece in SLOW_HEAD:
            await peer.send(piece)
            await pause(0.05)
        await peer.gone()

    async with Scripted(script) as server:
        exchange = await send(transport, server.url, response=0.3, idle=0.3)
        assert exchange.outcome.status == 200
        assert exchange.timings.download > 0.3


@pytest.mark.parametrize("pieces", [1, 5])
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_head_that_stands_still_is_ended_by_idle(transport, pieces, before):
    """SB-01: also when `response` is far longer."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(before)
        for piece in SLOW_HEAD[:pieces]:
            await peer.send(piece)
            await pause(0.005)
        await peer.gone()

    async with Scripted(script) as server:
        exchange = await send(transport, server.url, response=30, idle=SHORT)
        assert isinstance(exchange.error, TimedOut)
        assert (exchange.error.phase, exchange.error.sent, exchange.error.seconds) == ("idle", "yes", SHORT)


async def test_what_was_written_before_is_no_sign_of_life_while_an_answer_is_read():
    """HT-051"""

    class Still:
        taken, heard = 1000, 0

        def fail(self, error: Exception) -> None:
            ended.append(error)

    ended: list[Exception] = []
    wire, began = Still(), monotonic_ns()
    watch = Watch(asyncio.get_running_loop(), Timeout(**(NONE | {"idle": 0.001})), began, None)
    watch.reading(wire, began)
    while monotonic_ns() <= began + 1_000_000:
        pass
    watch._fire()
    assert [error.phase for error in ended] == ["idle"]


async def test_an_interim_answer_does_not_begin_the_answer(transport):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 100 ")
        await pause(0.005)
        await peer.send(b"Continue\r\n\r\n")
        await peer.gone()

    async with Scripted(script) as server:
        exchange = await send(transport, server.url, response=SHORT, idle=30)
        assert isinstance(exchange.error, TimedOut)
        assert exchange.error.phase == "response"


async def test_a_head_without_end_is_ended_by_the_attempts_limit(transport):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await peer.send(b"A: b\r\n")
            await pause(0.005)

    async with Scripted(script) as server:
        exchange = await send(transport, server.url, response=30, idle=30, attempt=2 * SHORT)
        assert isinstance(exchange.error, TimedOut)
        assert exchange.error.phase == "attempt"


async def test_a_slow_but_steady_upload_may_take_longer_than_any_standstill(transport):
    async def script(peer: Peer) -> None:
        await peer.request(body=False)
        left = 8_000_000
        while left:
            left -= len(await peer.reader.read(left))
            await pause(0.005)
        await peer.send(ok())

    async with Scripted(script) as server:
        exchange = await send(transport, server.url, "PUT", content=bytes(8_000_000), idle=0.4)
        assert exchange.outcome.status == 200


async def test_without_limits_an_attempt_waits(transport):
    """HT-055"""

    async def script(peer: Peer) -> None:
        await peer.request()
        await pause(0.1)
        await peer.send(ok())

    async with Scripted(script) as server:
        assert (await send(transport, server.url)).outcome.status == 200


async def test_the_phases_are_told_apart_and_add_up(transport):
    """HT-041, HT-042, HT-043, HT-044, HT-045, HT-046, HT-047, HT-048"""

    async def script(peer: Peer) -> None:
        await peer.request()
        await pause(0.05)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        await pause(0.1)
        await peer.send(b"b")
        await peer.gone()

    async with Scripted(script) as server:
        began = monotonic_ns()
        timings = (await send(transport, server.url.replace("127.0.0.1", "localhost"))).timings
        took = (monotonic_ns() - began) / 1e9
    # A loop may round a timer of the server down by a millisecond.
    assert timings.response >= 0.045
    assert timings.download >= 0.09
    assert min(timings.dns, timings.connect, timings.upload) > 0
    assert timings.tls == 0
    assert timings.total == pytest.approx(sum(value for name, value in timings.as_dict().items() if name != "total"))
    assert 0.135 <= timings.total <= took


async def test_a_phase_that_did_not_happen_is_0(transport):
    """HT-049"""
    async with Scripted(answer(ok())) as server:
        first, second = [(await send(transport, server.url)).timings for _ in range(2)]
        assert (first.dns, first.tls) == (0, 0)
        assert first.connect > 0
        assert (second.dns, second.connect, second.tls) == (0, 0, 0)


async def test_the_phases_of_a_failed_attempt_end_where_it_failed(transport):
    """HT-048"""
    async with Scripted(hang) as server:
        timings = (await send(transport, server.url, response=SHORT)).timings
        assert timings.response >= SHORT
        assert timings.download == 0


async def pause(seconds: float) -> None:
    """Let the server be slow; what a test claims never hangs on how slow exactly."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_later(seconds, done.set_result, None)
    await done
