"""Client: requests per second with everything on, beside its own transport, bare aiohttp and httpx."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from time import perf_counter, process_time
from typing import Any, cast

from benchmarks import peers
from benchmarks.loops import runner
from benchmarks.paired import Figure, Sample, interleave
from benchmarks.row import Row, digits, spread
from benchmarks.server import serving
from comity import AsyncClient, Request, Timeout
from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.base import Base
from comity.engine.call import Slot

IN_FLIGHT, MOST = 50, 500
SLOWER = 8
"""How many times fewer requests per sample the slowest peer gets."""

Get = Callable[[], Awaitable[object]]
OURS, TRANSPORT, AIOHTTP, HTTPX = "comity", "its transport alone", "bare aiohttp", "httpx + httpx-retries"


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    requests, least, most = (500, 3, 5) if quick else (4_000, 9, 31)
    makers = {OURS: _comity, TRANSPORT: _transport, AIOHTTP: _aiohttp, HTTPX: _httpx}
    if peers.find("httpx_retries") is None:
        del makers[HTTPX]
    with serving() as server, runner() as loop:
        stack = AsyncExitStack()
        gets = {name: loop.run(stack.enter_async_context(make(server.url))) for name, make in makers.items()}

        def sample(get: Get, number: int, take: Callable[[Get, int], Awaitable[float]]) -> Sample:
            return lambda: float(loop.run(cast("Any", take(get, number))))

        speeds = {name: sample(get, requests // (SLOWER if name == HTTPX else 1), _speed) for name, get in gets.items()}
        rounds = interleave(speeds, [(OURS, TRANSPORT), (OURS, AIOHTTP)], least=least, most=most)
        costs = {name: sample(gets[name], requests, _cost) for name in (OURS, TRANSPORT)}
        spent = interleave(costs, [(OURS, TRANSPORT)], least=least, most=most)
        loop.run(stack.aclose())
    for peer, target in ((TRANSPORT, 0.85), (AIOHTTP, 0.65), (HTTPX, 3.0)):
        what = f"client: {IN_FLIGHT} in flight, to {peer}"
        if peer not in gets:
            yield Row.absent(what)
            continue
        ratio = rounds.ratio(OURS, peer)
        yield Row.paired(what, rounds.figure(OURS), rounds.figure(peer), ratio, "/s", least=target)
    yield _policy(spent.samples[OURS], spent.samples[TRANSPORT])
    for path, size in (("/item", "small"), ("/big", "100 KB")):
        for at_once in (1, IN_FLIGHT, MOST):
            yield from _beside(path, f"{at_once} in flight, {size}", at_once, quick=quick)


def _beside(path: str, what: str, at_once: int, *, quick: bool) -> Iterator[Row]:
    """Yield the rows of one number in flight and one size of body; they have no target."""
    requests, least, most = (500, 3, 3) if quick else (2_000, 7, 15)
    makers = {OURS: _comity, TRANSPORT: _transport, AIOHTTP: _aiohttp}
    with serving() as server, runner() as loop:
        stack = AsyncExitStack()
        gets = {name: loop.run(stack.enter_async_context(make(server.url, path))) for name, make in makers.items()}

        def sample(get: Get) -> Sample:
            return lambda: float(loop.run(_speed(get, requests, at_once)))

        pairs = [(OURS, TRANSPORT), (OURS, AIOHTTP)]
        speeds = {name: sample(get) for name, get in gets.items()}
        rounds = interleave(speeds, pairs, least=least, most=most)
        loop.run(stack.aclose())
    for ours, peer in pairs:
        ratio = rounds.ratio(ours, peer)
        yield Row.paired(f"client: {what}, to {peer}", rounds.figure(ours), rounds.figure(peer), ratio, "/s")


def _policy(ours: Any, transport: Any) -> Row:
    """Return the row of what the policy costs: processor time with it less that without."""
    more = Figure.of(a - b for a, b in zip(ours, transport, strict=True))
    return Row(
        what="client: policy, processor time per request",
        ours=f"{digits(more.median)} us",
        peer=f"{digits(Figure.of(transport).median)} us",
        ratio=spread(Figure.of(a / b for a, b in zip(ours, transport, strict=True))),
        target="<= 20 us",
        met=more.median <= 20,
    )


async def _speed(get: Get, requests: int, at_once: int = IN_FLIGHT) -> float:
    began = perf_counter()
    await send(get, requests, at_once)
    return requests / (perf_counter() - began)


async def _cost(get: Get, requests: int) -> float:
    began = process_time()
    await send(get, requests)
    return (process_time() - began) / requests * 1e6


async def send(get: Get, requests: int, at_once: int = IN_FLIGHT) -> None:
    """Send so many requests, `at_once` at a time."""
    left = requests

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await get()

    await asyncio.gather(*(worker() for _ in range(at_once)))


@asynccontextmanager
async def _comity(url: str, path: str = "/item") -> AsyncIterator[Get]:
    """Run a client with everything on: two rates, a bound, retries, all timeouts and a deadline; nothing waits."""
    limits = Timeout(request=30, attempt=60)
    rates = ["90000/s", "5000000/min"]
    async with AsyncClient(url, rate=rates, concurrency=MOST, timeout=limits, deadline=60) as client:
        yield partial(client.get, path)


@asynccontextmanager
async def _transport(url: str, path: str = "/item") -> AsyncIterator[Get]:
    """The same bytes on the wire, from a new request each time; no policy."""
    transport = AiohttpTransport()
    limits, slot, headers = Timeout(), cast("Slot", _FreeSlot()), Base(url, None).headers(url)
    yield lambda: transport.send(Request("GET", f"{url}{path}", defaults=headers), limits, slot)
    await transport.aclose()


class _FreeSlot:
    """A Slot of no limiter."""

    number = 1
    deadline = None

    def sent(self) -> None: ...
    def answered(self) -> None: ...
    def hear(self, status: int, headers: object) -> None: ...

    @staticmethod
    def time_left() -> None: ...


@asynccontextmanager
async def _aiohttp(url: str, path: str = "/item") -> AsyncIterator[Get]:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def get() -> bytes:
            async with session.get(f"{url}{path}") as response:
                return await response.read()

        yield get


@asynccontextmanager
async def _httpx(url: str) -> AsyncIterator[Get]:
    httpx: Any = peers.find("httpx")
    module: Any = peers.find("httpx_retries")
    async with httpx.AsyncClient(transport=module.RetryTransport()) as client:
        yield partial(client.get, f"{url}/item")
