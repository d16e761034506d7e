"""Starting, waiting and closing, in a loop and in a thread; nothing is left behind and nothing hangs."""

from __future__ import annotations

import asyncio
import ssl
import threading
import urllib.request
from pathlib import Path

import aiohttp
import pytest

from comity.errors import OptionsError
from comity.testing import Upstream
from tests.testing.upstream_client import ask, exchange_bytes, request

PEM = Path(__file__).with_name("upstream_loopback.pem")


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


def client_context() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEM))


async def opened(up: Upstream, target: str) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", up.port)
    writer.write(request(target))
    return writer


async def test_it_serves_in_the_loop_of_its_user():
    async with Upstream() as up:
        assert up.url == f"http://127.0.0.1:{up.port}"
        assert (await ask(up, "/ok/1")).status == 200
    with pytest.raises(ConnectionRefusedError):
        await ask(up, "/ok/1")


def test_it_serves_a_blocking_client_from_a_thread_of_its_own():
    with Upstream() as up:
        with urllib.request.urlopen(up.url + "/ok/1") as answer:
            assert answer.read() == b'{"id":"1"}'
        assert [arrival.target for arrival in up.log] == ["/ok/1"]
    assert not any(thread.name == "comity-upstream" for thread in threading.enumerate())


def test_several_loops_may_use_one_in_a_thread():
    with Upstream() as up:
        for _ in range(2):
            assert asyncio.run(ask(up, "/ok/1")).status == 200
        assert len(up.log) == 2


@pytest.mark.parametrize("target", ["/hang", "/hang?after=body", "/delay/100000", "/slow-body?ms=100000", "/endless"])
async def test_closing_cuts_off_what_is_in_the_works(target):
    up = Upstream()
    async with up:
        writers = [await opened(up, target) for _ in range(3)]
        await up.until(lambda up: up.stats().total.in_flight == 3)
    assert (up.stats().total.in_flight, up.stats().open_connections, up.stats().lost) == (0, 0, 3)
    for writer in writers:
        writer.close()


async def test_closing_leaves_no_task_behind():
    before = asyncio.all_tasks()
    async with Upstream(ssl_context=server_context()) as up:
        _, writer = await asyncio.open_connection("127.0.0.1", up.port)
        _, secure = await asyncio.open_connection("127.0.0.1", up.port, ssl=client_context())
        secure.write(request("/hang"))
        await up.until(lambda up: up.stats().total.in_flight == 1)
    assert asyncio.all_tasks() == before
    writer.close()
    secure.close()


def test_a_thread_is_closed_with_answers_hanging():
    with Upstream() as up:

        async def leave_hanging() -> None:
            writer = await opened(up, "/hang")
            await up.until(lambda up: len(up.log) == 1)
            writer.close()

        asyncio.run(leave_hanging())
    assert up.stats().open_connections == 0


async def test_closing_twice_and_starting_again_are_fine():
    up = Upstream()
    for _ in range(2):
        await up.start()
        assert (await ask(up, "/ok/1")).status == 200
        await up.aclose()
        await up.aclose()
    assert len(up.log) == 2


async def test_starting_twice_is_refused():
    async with Upstream() as up:
        with pytest.raises(RuntimeError, match="running already"):
            await up.start()


def test_entering_twice_is_refused():
    with Upstream() as up, pytest.raises(RuntimeError, match="running already"):
        up.__enter__()


def test_a_port_that_is_taken_is_an_error_where_it_was_asked_for():
    with Upstream() as up, pytest.raises(OSError, match="in use"), Upstream(port=up.port):
        pass


async def test_it_serves_https_with_a_context():
    async with Upstream(ssl_context=server_context()) as up, aiohttp.ClientSession() as session:
        assert up.url.startswith("https://")
        async with session.get(up.url + "/ok/1", ssl=client_context()) as answer:
            assert await answer.json() == {"id": "1"}
        with pytest.raises((aiohttp.ClientConnectionError, ConnectionResetError)):
            await session.get(up.url + "/reset", ssl=client_context())


async def test_a_long_answer_comes_whole_over_https():
    async with Upstream(ssl_context=server_context()) as up, aiohttp.ClientSession() as session:
        for target, size in (("/ok/1?bytes=3000000", 3_000_000), ("/endless?bytes=3000001", 3_000_001)):
            async with session.get(up.url + target, ssl=client_context()) as answer:
                assert len(await answer.read()) == size


async def test_a_failed_handshake_harms_nobody_else():
    async with Upstream(ssl_context=server_context()) as up, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(up.url + "/ok/1")
        assert await exchange_bytes(up, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") == b""
        async with session.get(up.url + "/ok/2", ssl=client_context()) as answer:
            assert answer.status == 200
        assert [arrival.target for arrival in up.log] == ["/ok/2"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_it_listens_on_loopback(host):
    async with Upstream(host=host) as up:
        assert up.url.startswith("http://127.0.0.1:")


def test_an_ipv6_address_stands_in_brackets():
    assert Upstream(host="::1", port=80).url == "http://[::1]:80"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"host": "0.0.0.0"}, "allow_remote"),
        ({"host": "192.0.2.1"}, "loopback"),
        ({"host": "example.org"}, "an IP address"),
        ({"port": 65536}, "from 0 to 65535"),
        ({"log_limit": 0}, "at least 1"),
        ({"keep_alive": 0}, "more than 0"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options, says):
    (name,) = options
    with pytest.raises(OptionsError, match=says) as refused:
        Upstream(**options)
    assert refused.value.option == name


def test_other_addresses_are_taken_when_asked_for():
    assert Upstream(host="0.0.0.0", port=80, allow_remote=True).url == "http://0.0.0.0:80"


async def test_hundreds_of_connections_at_once():
    async with Upstream() as up:
        writers = [await opened(up, "/hang") for _ in range(200)]
        await up.until(lambda up: up.stats().total.in_flight == 200)
        assert up.stats().total.max_in_flight == 200
        assert (await ask(up, "/ok/1")).status == 200
        for writer in writers:
            writer.close()


async def test_waiting_ends_with_an_error_when_nothing_happens():
    async with Upstream() as up:
        with pytest.raises(TimeoutError):
            await up.until(lambda up: False, within=0.01)


def test_a_thread_may_wait_too():
    with Upstream() as up:
        with pytest.raises(TimeoutError):
            up.wait_until(lambda up: False, within=0.01)
        with urllib.request.urlopen(up.url + "/ok/1"):
            up.wait_until(lambda up: len(up.log) == 1)


async def test_a_broken_condition_is_the_waiters_error_and_not_the_servers():
    async with Upstream() as up:
        waiting = asyncio.ensure_future(up.until(lambda up: up.log and 1 / 0))
        assert (await ask(up, "/ok/1")).status == 200
        with pytest.raises(ZeroDivisionError):
            await waiting


async def test_clear_forgets_but_keeps_count_of_what_is_in_flight():
    async with Upstream() as up:
        writer = await opened(up, "/hang")
        await up.until(lambda up: len(up.log) == 1)
        up.clear()
        assert (up.log, up.stats().total.count, up.stats().total.in_flight) == ([], 0, 1)
        writer.close()
        await up.until(lambda up: up.stats().total.in_flight == 0)
