"""Client: requests per second with everything on, beside its own transport, bare aiohttp, httpx, httpx2 and undici."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from time import perf_counter, process_time
from typing import NamedTuple

from benchmarks import clients
from benchmarks.clients import MOST, Client, Get
from benchmarks.loops import runner
from benchmarks.paired import Figure, Sample, interleave
from benchmarks.peers import Absent
from benchmarks.row import Row, digits, spread
from benchmarks.server import serving
from benchmarks.undici import undici

IN_FLIGHT = 50
COST = 20
"""What policy and client may add to their transport, microseconds of processor time per request."""
SLOWER = 16
"""How many times fewer requests per sample the slow peers get."""

Speed = Callable[[int, int], float]
"""Sends so many requests, so many at once, and returns requests per second."""

OURS, TRANSPORT, AIOHTTP = "comity", "its transport alone", "bare aiohttp"
HTTPX, HTTPX2, RETRIES, UNDICI = "httpx", "httpx2", "httpx + httpx-retries", "undici + p-limit"
CLIENTS: dict[str, Client] = {
    OURS: clients.comity,
    TRANSPORT: clients.transport,
    AIOHTTP: clients.aiohttp,
    HTTPX: clients.httpx,
    HTTPX2: clients.httpx2,
    RETRIES: clients.httpx_retries,
}
SLOW = {HTTPX, HTTPX2, RETRIES}
PEERS = (TRANSPORT, AIOHTTP, HTTPX, HTTPX2, UNDICI)
TARGETS = {TRANSPORT: 0.85, AIOHTTP: 0.65, RETRIES: 3.0}
"""The ratios to reach with small bodies and IN_FLIGHT in flight. All others are printed beside."""


class Effort(NamedTuple):
    """How much is measured: requests per sample, and rounds at least and at most."""

    requests: int
    least: int
    most: int


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    effort, more = (Effort(500, 3, 3), Effort(500, 3, 5)) if quick else (Effort(2_000, 5, 9), Effort(4_000, 9, 21))
    small, big = ("/item", "small"), ("/big", "100 KB")
    yield from _beside(*small, IN_FLIGHT, more, targets=TARGETS)
    for body, at_once in ((small, 1), (small, MOST), (big, 1), (big, IN_FLIGHT), (big, MOST)):
        yield from _beside(*body, at_once, effort, targets={})
    yield from _policy(more)


def _beside(path: str, size: str, at_once: int, effort: Effort, *, targets: Mapping[str, float]) -> Iterator[Row]:
    """Yield a row for each of PEERS and what else has a target, with one size of body and one number in flight."""
    peers = list(dict.fromkeys((*PEERS, *targets)))
    requests, least, most = effort
    few = max(requests // SLOWER, 2 * at_once)
    with _running(path, (OURS, *peers)) as (speeds, absent):
        samples = {name: partial(speed, few if name in SLOW else requests, at_once) for name, speed in speeds.items()}
        rounds = interleave(samples, [(OURS, TRANSPORT), (OURS, AIOHTTP)], least=least, most=most)
    for peer in peers:
        what = f"client: {at_once} in flight, {size}, to {peer}"
        if peer in absent:
            yield Row.absent(what, absent[peer])
            continue
        ratio = rounds.ratio(OURS, peer)
        yield Row.paired(what, rounds.figure(OURS), rounds.figure(peer), ratio, "/s", least=targets.get(peer))


@contextmanager
def _running(path: str, names: Iterable[str]) -> Iterator[tuple[dict[str, Speed], dict[str, str]]]:
    """Run a server and the named clients; the value is the speed of each, and why some are absent."""
    speeds: dict[str, Speed] = {}
    absent: dict[str, str] = {}
    with serving() as server, runner() as loop:
        stack = AsyncExitStack()

        def start(name: str) -> Speed:
            if name == UNDICI:
                return stack.enter_context(undici(server.url, path))
            get = loop.run(stack.enter_async_context(CLIENTS[name](server.url, path)))
            return lambda requests, at_once: loop.run(_speed(get, requests, at_once))

        try:
            for name in names:
                try:
                    speeds[name] = start(name)
                except Absent as why:
                    absent[name] = str(why)
            yield speeds, absent
        finally:
            loop.run(stack.aclose())


def _policy(effort: Effort) -> Iterator[Row]:
    """Yield the rows of what policy and client cost: processor time with them less that without.

    Over a transport that answers at once it is their own. On the wire more comes of it: the same system calls are made, but
    each write takes longer, which a server explains that has time to sleep between two requests and is woken by it.
    """
    instant = clients.Instant()
    at_once = {OURS: partial(clients.comity, over=instant), TRANSPORT: partial(clients.transport, alone=instant)}
    with serving() as server:
        for where, pair in (("over an instant transport", at_once), ("on the wire", CLIENTS)):
            yield _more(f"client: policy + client, {where}", server.url, pair, effort)


def _more(what: str, url: str, pair: Mapping[str, Client], effort: Effort) -> Row:
    """Return the row of what the first of a pair costs more than the other, in processor time per request."""
    requests, least, most = effort
    with runner() as loop:
        stack = AsyncExitStack()

        def cost(name: str) -> Sample:
            get = loop.run(stack.enter_async_context(pair[name](url, "/item")))
            return lambda: loop.run(_cost(get, requests))

        costs = {name: cost(name) for name in (OURS, TRANSPORT)}
        rounds = interleave(costs, [(OURS, TRANSPORT)], least=least, most=most)
        loop.run(stack.aclose())
    ours, transport = rounds.samples[OURS], rounds.samples[TRANSPORT]
    more = Figure.of(a - b for a, b in zip(ours, transport, strict=True))
    return Row(
        what=what,
        ours=f"{digits(more.median)} us",
        peer=f"{digits(Figure.of(transport).median)} us",
        ratio=spread(rounds.ratio(OURS, TRANSPORT)),
        target=f"<= {COST} us",
        met=more.median <= COST,
    )


async def _speed(get: Get, requests: int, at_once: int) -> float:
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
