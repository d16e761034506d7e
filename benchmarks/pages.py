"""Pages: what dashboards ask of a service that holds millions of finished deliveries, and what that costs submissions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from urllib.parse import quote, urlencode

from benchmarks.callers import calling
from benchmarks.filling import SECOND, fill
from benchmarks.intake import CONNECTIONS, flood
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.places import KINDS, place
from benchmarks.processes import service
from benchmarks.row import Row, digits
from comity.store.records import NewDelivery

DASHBOARDS = 20
EVERY = 2.0
"""Seconds between two polls of a dashboard; each asks for what a screen of it shows."""
SHOWN = ("newest", "failed", "lanes", "metrics", "one")
MOST = 10
"""What a page may cost, ms."""

_DONE, _BROKEN = "https://done.example:443", "https://broken.example:443"
_HOUR = 3_601 * SECOND


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    finished, turns = (2_000, 5) if quick else (2_000_000, 100)
    for kind in KINDS:
        what = f"service: {kind}, with {finished:,} finished"
        with place(kind) as store:
            if isinstance(store, str):
                yield Row.absent(what, store)
                continue
            with runner() as loop:
                # Blocks of one kind, so that a page that looks for others has to pass them all.
                loop.run(fill(store, _finished(_DONE), finished // 2, "completed", age=3 * _HOUR))
                loop.run(fill(store, _finished(_BROKEN), finished // 2, "failed", age=2 * _HOUR))
            with service(store.url, "--allow=127.0.0.0/8", "--max-queue=off") as port, runner() as loop:
                pages = loop.run(_pages(port))
                for name, path in pages.items():
                    yield _page_row(f"{what}, page: {name}", loop.run(_times(port, path, turns)))
                yield _cost_row(what, loop, port, [pages[name] for name in SHOWN], quick=quick)


def _finished(origin: str) -> NewDelivery:
    return NewDelivery(origin=origin, method="POST", url=f"{origin}/hook", body=b'{"event":"invoice.paid"}')


async def _pages(port: int) -> Mapping[str, str]:
    """Return the paths of all pages, by what they are."""
    async with calling(port, 1) as (caller,):
        text, _ = await caller.get("/requests?status=completed&limit=1")
    (one,) = json.loads(text)["requests"]
    since = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    queries: dict[str, dict[str, str]] = {
        "newest": {},
        "completed": {"status": "completed"},
        "failed": {"status": "failed"},
        "pending": {"status": "pending"},
        "of a lane": {"lane": _DONE},
        "completed of a lane of failed ones": {"lane": _BROKEN, "status": "completed"},
        "failed of a lane of completed ones": {"lane": _DONE, "status": "failed"},
        "failed for a reason": {"reason": "attempts"},
        "failed for a reason that is rare": {"reason": "poison"},
        "since three hours ago": {"since": since},
    }
    pages = {name: f"/requests?{urlencode(query)}" for name, query in queries.items()}
    lane = f"/lanes/{quote(_DONE, safe='')}"
    return {**pages, "one": f"/requests/{one['id']}", "lanes": "/lanes", "a lane": lane, "metrics": "/metrics"}


async def _times(port: int, path: str, turns: int) -> list[float]:
    """Return the seconds that a page takes for one who asks alone."""
    async with calling(port, 1) as (caller,):
        await caller.get(path)
        return [(await caller.get(path))[1] for _ in range(turns)]


def _page_row(what: str, times: list[float]) -> Row:
    cost = median(times) * 1e3
    told = f"p50 {digits(cost)} ms, the least {digits(min(times) * 1e3)} ms"
    return Row(what=what, ours=told, target=f"<= {MOST} ms", met=cost <= MOST)


def _cost_row(what: str, loop: asyncio.Runner, port: int, paths: list[str], *, quick: bool) -> Row:
    """Return the row of submissions beside dashboards, to those without."""
    many, least, most = (200, 2, 3) if quick else (3_000, 5, 9)

    async def submissions(dashboards: int) -> float:
        async with _polling(port, dashboards, paths), calling(port, CONNECTIONS) as callers:
            rate, _ = await flood(callers, many)
        return rate

    competitors = {
        str(number): partial(lambda number: loop.run(submissions(number)), number) for number in (DASHBOARDS, 0)
    }
    rounds = interleave(competitors, [(str(DASHBOARDS), "0")], least=least, most=most)
    beside, without = rounds.figure(str(DASHBOARDS)), rounds.figure("0")
    asked = f"{len(paths)} pages, then wait {EVERY:g} s, and so on"
    told = f"{what}, POST /requests beside {DASHBOARDS} dashboards that each ask for {asked}, to none"
    return Row.paired(told, beside, without, rounds.ratio(str(DASHBOARDS), "0"), "/s")


@asynccontextmanager
async def _polling(port: int, dashboards: int, paths: list[str]) -> AsyncIterator[None]:
    """Let so many dashboards poll while the block lasts, not all at the same moment."""

    async def poll(number: int) -> None:
        async with calling(port, 1) as (caller,):
            await asyncio.sleep(number * EVERY / dashboards)
            while True:
                for path in paths:
                    await caller.get(path)
                await asyncio.sleep(EVERY)

    polls = [asyncio.create_task(poll(number)) for number in range(dashboards)]
    try:
        yield
    finally:
        for each in polls:
            each.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
