"""Pool: which connection is used again, and for how long one rests."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic_ns

import pytest

from comity.client.address import parse
from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.async_client import AsyncClient
from comity.client.pool import KEEP_NS, Pool
from comity.client.stopwatch import Stopwatch
from comity.client.wire import Wire
from tests.client.scripted import Peer, Scripted, answer, ok

SECOND = 1_000_000_000


async def silent(peer: Peer) -> None:
    await peer.gone()


@pytest.fixture
async def server():
    async with Scripted(silent) as server:
        yield server


@pytest.fixture
async def pool(server):
    pool = Pool(asyncio.get_running_loop())
    yield pool
    await pool.aclose()


async def rest(pool: Pool, url: str, keep_alive: str | None = None) -> Wire:
    wire = await pool.dial(parse(url).origin, Stopwatch())
    pool.give_back(wire, keep_alive, monotonic_ns())
    return wire


async def test_the_connection_that_rested_the_shortest_is_taken_first(server, pool):
    first, second = [await rest(pool, server.url) for _ in range(2)]
    origin = parse(server.url).origin
    assert [pool.take(origin, monotonic_ns()) for _ in range(3)] == [second, first, None]


async def test_another_origin_gets_no_connection_of_this_one(server, pool):
    await rest(pool, server.url)
    assert pool.take(parse(server.url.replace("http:", "https:")).origin, monotonic_ns()) is None
    assert pool.take(parse("http://localhost").origin, monotonic_ns()) is None


@pytest.mark.parametrize(
    ("announced", "seconds"),
    [
        (None, 15),
        ("timeout=5, max=100", 4.5),
        ("max=100, timeout=1", 0.5),
        ("timeout=0", 0),
        ("timeout=100", 15),
        ("timeout=x", 15),
        ("xtimeout=1", 15),
    ],
)
async def test_a_connection_rests_shorter_than_its_server_announced(server, pool, announced, seconds):
    """KA-03"""
    wire = await rest(pool, server.url, announced)
    assert wire.expires - wire.rested == seconds * SECOND


async def test_a_connection_past_its_time_is_closed_instead_of_used(server, pool):
    """KA-03"""
    await rest(pool, server.url)
    assert pool.take(parse(server.url).origin, monotonic_ns() + KEEP_NS) is None
    await server.until(lambda server: server.open == 0)


async def test_the_sweep_closes_what_rested_too_long_and_keeps_the_rest(server, pool):
    old, fresh = [await rest(pool, server.url) for _ in range(2)]
    old.expires = 0
    pool._sweep()
    await server.until(lambda server: server.open == 1)
    assert pool.take(parse(server.url).origin, monotonic_ns()) is fresh
    pool.give_back(fresh, None, monotonic_ns())
    fresh.expires = 0
    pool._sweep()
    await server.until(lambda server: server.open == 0)
    assert len(pool) == 0


async def test_what_comes_back_after_closing_is_closed(server, pool):
    wire = await pool.dial(parse(server.url).origin, Stopwatch())
    await pool.aclose()
    pool.give_back(wire, None, monotonic_ns())
    await server.until(lambda server: server.open == 0)


async def test_hosts_that_are_never_asked_again_leave_no_socket_and_no_entry():
    """MK-03"""

    async def resolve(host: str, port: int) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]

    transport = AiohttpTransport(resolve=resolve)
    script = answer(ok(b"ok", "Keep-Alive: timeout=0"))
    async with Scripted(script) as server, AsyncClient(transport=transport, concurrency=20, max_connections=20) as api:
        urls = (f"http://host-{number}.test:{server.port}/" for number in range(10_000))
        async for _ in api.map(urls):
            pass
        await server.until(lambda server: server.open == 0)
        [pool] = transport._pools.values()
        assert (len(pool), pool._resting, server.connections) == (0, {}, 10_000)


async def test_the_sweep_comes_when_the_first_connection_is_due(server, pool):
    await rest(pool, server.url)
    await rest(pool, server.url, "timeout=0")
    await server.until(lambda server: server.connections == 2 and server.open == 1)
    assert len(pool) == 1
