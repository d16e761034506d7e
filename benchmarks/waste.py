"""Waste: how many sends a server refuses before everybody has an answer.

100 GETs are wanted at once from a server that allows exactly 20 in any second and says Retry-After: 1 to the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic
from typing import Any

from benchmarks import peers
from benchmarks.paired import Figure
from benchmarks.row import Row
from benchmarks.server import Server, serving
from comity import AsyncClient, Rate

WANTED = 100
LIMIT, PER = 20, 1.0
TRIES = 10

Fetch = Callable[[str], Awaitable[list[int]]]
"""Sends WANTED requests to a URL and returns the statuses they ended with."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    fetchers: list[tuple[str, str, Fetch, float | None]] = [
        ("comity, measured at the server", "comity", _comity(rate=Rate(LIMIT, PER, measured="server")), 0.02),
        ("comity, measured at the client", "comity", _comity(rate=Rate(LIMIT, PER)), None),
        ("comity, no rate given", "comity", _comity(), 0.1),
        ("comity, no rate given, concurrency=100", "comity", _comity(concurrency=WANTED), None),
        ("httpx + httpx-retries", "httpx_retries", _httpx, None),
        ("aiohttp + aiolimiter + a retry loop", "aiolimiter", _aiohttp, None),
    ]
    with serving(limit=LIMIT, per=PER) as server:
        for name, module, fetch, most in fetchers:
            what = f"waste, {name}: refused sends per request"
            if peers.find(module) is None:
                yield Row.absent(what)
            else:
                yield _row(what, [_run(server, fetch) for _ in range(1 if quick else 3)], most)


def _run(server: Server, fetch: Fetch) -> tuple[float, float, int]:
    """Return refused sends per request, seconds, and how many requests ended without success."""
    server.reset()
    began = monotonic()
    statuses = asyncio.run(_started(fetch, server.url))
    took = monotonic() - began
    refused = sum(status == 429 for _, status in server.log())
    return refused / WANTED, took, sum(status != 200 for status in statuses)


async def _started(fetch: Fetch, url: str) -> list[int]:
    return await fetch(url)


def _row(what: str, runs: list[tuple[float, float, int]], most: float | None) -> Row:
    waste, took, failed = Figure.of(run[0] for run in runs), Figure.of(run[1] for run in runs), sum(r[2] for r in runs)
    figure = f"{waste.median:.2f} ({waste.low:.2f} to {waste.high:.2f})"
    effort = f"in {took.median:.1f} s" + (f", {failed / len(runs):.0f} failed" if failed else "")
    return Row(
        what=what,
        ours=figure,
        peer=effort,
        target="" if most is None else f"<= {most:g}",
        met=None if most is None else waste.median <= most,
    )


def _comity(**options: Any) -> Fetch:
    async def fetch(url: str) -> list[int]:
        async with AsyncClient(url, raise_for="never", **options) as client:
            answers = await asyncio.gather(*(client.get("/") for _ in range(WANTED)))
            return [answer.status_code for answer in answers]

    return fetch


async def _httpx(url: str) -> list[int]:
    """Fetch with the transport of httpx-retries; half a second of backoff as in its documentation, total as given."""
    httpx: Any = peers.find("httpx")
    module: Any = peers.find("httpx_retries")
    transport = module.RetryTransport(retry=module.Retry(total=TRIES, backoff_factor=0.5))
    async with httpx.AsyncClient(transport=transport, timeout=60) as client:
        answers = await asyncio.gather(*(client.get(url) for _ in range(WANTED)))
        return [int(answer.status_code) for answer in answers]


async def _aiohttp(url: str) -> list[int]:
    """Fetch through a shared AsyncLimiter; a refused request waits as long as it was told and queues again."""
    import aiohttp

    module: Any = peers.find("aiolimiter")
    limiter = module.AsyncLimiter(LIMIT, PER)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def get() -> int:
            status = 0
            for _ in range(TRIES + 1):
                async with limiter, session.get(url) as response:
                    await response.read()
                    status = response.status
                if status != 429:
                    break
                await asyncio.sleep(float(response.headers["Retry-After"]))
            return status

        return await asyncio.gather(*(get() for _ in range(WANTED)))
