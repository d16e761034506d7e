"""AsyncClient: an event loop that is closed with requests in flight takes nothing of the client with it."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvloop

from comity.client.async_client import AsyncClient
from comity.testing import Upstream

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # by whoever closed the loop
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
LARGE = bytes(50_000_000)


class Interrupted(Exception):
    """What a program fails with."""


@pytest.fixture(params=LOOPS)
def new_loop(request):
    return LOOPS[request.param]


@pytest.fixture
def upstream():
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(autouse=True)
def unraisable(monkeypatch):
    """What destructors raised."""
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: raised.append(found.exc_value))
    yield raised
    gc.collect()
    assert raised == []


def abandoned(new_loop: Callable[[], asyncio.AbstractEventLoop], program: Coroutine[Any, Any, None]) -> None:
    """Run a program that fails, and close its loop with the tasks still pending."""
    loop = new_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending": that is the point here
    with pytest.raises(Interrupted):
        loop.run_until_complete(program)
    loop.close()


async def leave(api: AsyncClient, *, method: str = "GET", url: str, content: bytes | None = None) -> None:
    """Start two requests, keep no reference to them, and fail once they are as far as they get."""
    for _ in range(2):
        asyncio.ensure_future(api.request(method, url, content=content))  # noqa: RUF006 - that is the point here
    alone = asyncio.get_running_loop().create_future()
    await asyncio.wait([alone], timeout=0.1)
    raise Interrupted


@contextmanager
def full() -> Iterator[int]:
    """Give the port of a listener that accepts nobody and whose backlog is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextmanager
def deaf() -> Iterator[int]:
    """Give the port of a listener that takes connections and reads nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        yield listener.getsockname()[1]


async def still_works(api: AsyncClient, upstream: Upstream) -> None:
    async with asyncio.timeout(5):
        assert (await api.get(f"{upstream.url}/ok/1")).status_code == 200
        await api.aclose()


@pytest.mark.parametrize("target", ["/hang", "/hang?after=body", "/slow-body?ms=100000", "/delay/100000"])
def test_requests_that_were_in_flight_give_their_slots_back(new_loop, upstream, target):
    """LF-01"""
    api = AsyncClient(concurrency=2)
    abandoned(new_loop, leave(api, url=upstream.url + target))
    gc.collect()
    assert (api.stats().running, api.stats().queued) == (0, 0)
    asyncio.run(still_works(api, upstream))


@pytest.mark.parametrize(("where", "host", "options"), [
    (deaf, "127.0.0.1", {"method": "PUT", "content": LARGE}),
    (full, "127.0.0.1", {}),
    (full, "localhost", {}),
])  # fmt: skip
def test_so_do_those_that_connect_or_write(new_loop, upstream, where, host, options):
    """LF-01"""
    api = AsyncClient(concurrency=2)
    with where() as port:
        abandoned(new_loop, leave(api, url=f"http://{host}:{port}/x", **options))
        gc.collect()
        assert (api.stats().running, api.stats().queued) == (0, 0)
    asyncio.run(still_works(api, upstream))


def test_a_stream_that_stood_open_gives_its_slot_back_and_lets_the_client_be_closed(new_loop, upstream):
    """LF-01"""
    api = AsyncClient(concurrency=1)
    blocks = [api.stream("GET", f"{upstream.url}/hang?after=headers")]

    async def program() -> None:
        await blocks[0].__aenter__()
        raise Interrupted

    abandoned(new_loop, program())
    blocks.clear()
    gc.collect()
    assert (api.stats().running, api.stats().queued) == (0, 0)
    asyncio.run(still_works(api, upstream))


def test_connections_that_rested_and_are_used_again_keep_no_request_alive(new_loop, upstream):
    """LF-01"""
    api = AsyncClient(concurrency=2)

    async def program() -> None:
        await asyncio.gather(*(api.get(f"{upstream.url}/ok/{n}") for n in range(2)))
        await leave(api, url=f"{upstream.url}/hang")

    abandoned(new_loop, program())
    gc.collect()
    assert (api.stats().running, api.stats().queued) == (0, 0)
    asyncio.run(still_works(api, upstream))


def test_a_client_can_be_closed_when_nothing_else_was_done_since(new_loop, upstream):
    api = AsyncClient(concurrency=2)
    abandoned(new_loop, leave(api, url=f"{upstream.url}/hang"))
    gc.collect()

    async def close() -> None:
        async with asyncio.timeout(5):
            await api.aclose()

    asyncio.run(close())


def test_requests_in_another_loop_that_waited_for_those_slots_get_them(new_loop, upstream):
    """LF-01"""
    api = AsyncClient(concurrency=2)
    abandoned(new_loop, leave(api, url=f"{upstream.url}/hang"))

    async def wait() -> None:
        waiting = asyncio.create_task(api.get(f"{upstream.url}/ok/1"))
        await asyncio.sleep(0)
        gc.collect()
        async with asyncio.timeout(5):
            assert (await waiting).status_code == 200
        await api.aclose()

    asyncio.run(wait())
