"""Intake: submissions over HTTP that a `comity serve` accepts per second, and how long the answer takes.

The measure is the same web server with an application that stores nothing, in the same run. `--max-queue off` and a delay
of a day keep the worker out of it; `journeys` has both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from benchmarks.callers import Caller, at, calling
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.places import KINDS, Place, place
from benchmarks.processes import bare, service
from benchmarks.row import Row, digits

CONNECTIONS = 64
FIELDS = {
    "url": "http://127.0.0.1:9/hook",
    "method": "POST",
    "headers": {"Content-Type": "application/json"},
    "body": '{"event":"invoice.paid","id":"0123456789abcdef0123456789abcdef"}',
    "delay": 86_400,
}


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    for kind in KINDS:
        what = f"service: {kind}, POST /requests of {CONNECTIONS} connections, to the web server alone"
        with place(kind) as store:
            yield Row.absent(what, store) if isinstance(store, str) else _row(what, store, quick=quick)


def _row(what: str, store: Place, *, quick: bool) -> Row:
    many, least, most = (500, 2, 3) if quick else (5_000, 5, 11)
    times: list[float] = []
    with service(store.url, "--allow=127.0.0.0/8", "--max-queue=off") as ours, bare() as limit, runner() as loop:

        def flood(port: int, kept: list[float]) -> float:
            rate, took = loop.run(_flood(port, many))
            kept.extend(took)
            return rate

        competitors = {"ours": partial(flood, ours, times), "limit": partial(flood, limit, [])}
        rounds = interleave(competitors, [("ours", "limit")], least=least, most=most)
    row = Row.paired(what, rounds.figure("ours"), rounds.figure("limit"), rounds.ratio("ours", "limit"), "/s")
    answers = f"p50 {digits(at(times, 0.5) * 1e3)} ms, p99 {digits(at(times, 0.99) * 1e3)} ms"
    return Row(what=what, ours=f"{row.ours}, {answers}", peer=row.peer, ratio=row.ratio)


async def _flood(port: int, many: int) -> tuple[float, list[float]]:
    """Submit so many; return how many a second, and the seconds that each took."""
    async with calling(port, CONNECTIONS) as callers:
        return await flood(callers, many)


async def flood(callers: list[Caller], many: int) -> tuple[float, list[float]]:
    """Submit so many, one after another on each connection; return how many a second, and the seconds that each took."""
    times: list[float] = []
    left = many

    async def submit(caller: Caller) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            times.append(await caller.submit(FIELDS))

    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*map(submit, callers))
    return many / (loop.time() - began), times
