"""Dial: how names are looked up, and what a failed lookup says."""

from __future__ import annotations

import asyncio
import socket

import pytest

from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.async_client import AsyncClient
from comity.errors import ConnectFailed, TargetBlocked, TimedOut
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from tests.client.scripted import Scripted, answer, ok

LOOPBACK = "127.0.0.1"
AT_ONCE = Backoff(base=0.001, jitter=None)


class Names:
    """A resolver that follows a script: an error is raised, an address returned; the last entry stays."""

    def __init__(self, *script: Exception | str) -> None:
        self.script = list(script)
        self.asked: list[tuple[str, int]] = []
        self.gate: asyncio.Event | None = None

    async def __call__(self, host: str, port: int):
        self.asked.append((host, port))
        if self.gate is not None:
            await self.gate.wait()
        found = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(found, Exception):
            raise found
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (found, port))]


def client(names: Names, retries: int = 0, **options) -> AsyncClient:
    retry = Retry(attempts=retries + 1, backoff=AT_ONCE)
    return AsyncClient(transport=AiohttpTransport(resolve=names), retry=retry, **options)


def unknown(code: int = socket.EAI_NONAME) -> socket.gaierror:
    return socket.gaierror(code, "Name or service not known")


async def test_a_failed_lookup_is_not_remembered_and_each_retry_asks_again():
    """DN-01"""
    names = Names(unknown(socket.EAI_AGAIN), LOOPBACK)
    async with Scripted(answer(ok())) as server, client(names, retries=2) as api:
        response = await api.get(f"http://api.test:{server.port}/")
    assert [attempt.status for attempt in response.attempts] == [None, 200]
    assert names.asked == [("api.test", server.port)] * 2


async def test_one_callers_time_limit_on_a_shared_name_touches_nobody_else():
    """DN-03"""
    names = Names(LOOPBACK)
    names.gate = asyncio.Event()
    async with Scripted(answer(ok())) as server, client(names) as api:
        url = f"http://api.test:{server.port}/"
        patient = asyncio.create_task(api.get(url, timeout=Timeout(connect=5)))
        with pytest.raises(TimedOut) as caught:
            await api.get(url, timeout=Timeout(connect=0.02))
        assert (caught.value.phase, caught.value.sent) == ("connect", "no")
        names.gate.set()
        assert (await patient).status_code == 200
    assert len(names.asked) == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (unknown(), "EAI_NONAME"),
        (unknown(socket.EAI_AGAIN), "EAI_AGAIN"),
        (TimeoutError("timeout"), ""),
    ],
)
async def test_a_lookup_failure_names_the_host_and_its_kind_and_is_tried_again(error, code):
    """DN-05, HT-024"""
    names = Names(error)
    async with client(names, retries=1) as api:
        with pytest.raises(ConnectFailed, match=r"no connection to no-such-host\.invalid ") as caught:
            await api.get("http://no-such-host.invalid/")
    assert (caught.value.phase, caught.value.code, caught.value.sent) == ("dns", code, "no")
    assert caught.value.retryable
    assert len(names.asked) == len(caught.value.attempts) == 2


async def test_a_name_without_an_address_is_a_failed_connection():
    async def nothing(host: str, port: int):
        return []

    async with AsyncClient(transport=AiohttpTransport(resolve=nothing), retry=0) as api:
        with pytest.raises(ConnectFailed):
            await api.get("http://api.test/")


async def test_an_address_needs_no_lookup():
    names = Names(unknown())
    async with Scripted(answer(ok())) as server, client(names) as api:
        assert (await api.get(server.url)).ok
    assert names.asked == []


async def test_a_refused_connection_has_its_name():
    """HT-024"""
    async with Scripted(answer(ok())) as server:
        url = server.url
    async with AsyncClient(retry=0) as api:
        with pytest.raises(ConnectFailed) as caught:
            await api.get(url)
    assert (caught.value.phase, caught.value.code) == ("connect", "ECONNREFUSED")


async def test_several_addresses_are_tried_until_one_answers():
    async def two(host: str, port: int):
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
            for address in ("127.0.0.2", LOOPBACK)
        ]

    async with Scripted(answer(ok())) as server, AsyncClient(transport=AiohttpTransport(resolve=two), retry=0) as api:
        assert (await api.get(f"http://api.test:{server.port}/")).ok


class Judge:
    """A guard that objects to the question of a number, from 1."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.asked: list[tuple[str, list[str]]] = []

    def objection(self, host: str, addresses: list[str]) -> str | None:
        self.asked.append((host, list(addresses)))
        return "because" if len(self.asked) == self.at else None


async def test_a_guard_is_asked_about_every_address_and_then_about_the_peer():
    """SS-05"""
    judge = Judge()

    async def two(host: str, port: int):
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
            for address in ("127.0.0.2", LOOPBACK)
        ]

    transport = AiohttpTransport(resolve=two, guard=judge)
    async with Scripted(answer(ok())) as server, AsyncClient(transport=transport, retry=0) as api:
        for _ in range(2):  # the second goes by the same connection
            assert (await api.get(f"http://api.test:{server.port}/")).ok
    assert judge.asked == [("api.test", ["127.0.0.2", LOOPBACK]), ("api.test", [LOOPBACK])]


@pytest.mark.parametrize(("at", "connections"), [(1, 0), (2, 1)])
async def test_where_a_guard_objects_nothing_is_sent_and_it_is_final(at, connections):
    """SS-07"""
    transport = AiohttpTransport(resolve=Names(LOOPBACK), guard=Judge(at))
    async with Scripted(answer(ok())) as server:
        async with AsyncClient(transport=transport, retry=Retry(retries=3, backoff=AT_ONCE)) as api:
            with pytest.raises(TargetBlocked, match=r"nobody connect there \(because\); nothing was sent") as caught:
                await api.get(f"http://api.test:{server.port}/")
        await server.until(lambda server: server.connections == connections and server.open == 0)
        assert server.seen == []
    assert (caught.value.rule, caught.value.sent, len(caught.value.attempts)) == ("because", "no", 1)
