"""Journeys: deliveries per second from a submission over HTTP to their end: sent to a receiver, answered, completed.

One `comity serve` process does all of it; beside it stands what its store does alone, in the same run (see `store`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from time import perf_counter

from benchmarks.callers import Caller, calling
from benchmarks.filling import HOUR
from benchmarks.intake import CONNECTIONS
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.places import KINDS, Place, place
from benchmarks.processes import service
from benchmarks.receiver import receiving
from benchmarks.row import Row
from benchmarks.store import lives_of
from comity.service.stores import open_store

ORIGINS = 16


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    for kind in KINDS:
        what = f"service: {kind}, from POST to completed, to lives in its store alone"
        with place(kind) as store, place(kind) as alone:
            if isinstance(store, str) or isinstance(alone, str):
                yield Row.absent(what, str(store))
                continue
            yield _row(what, store, alone, quick=quick)


def _row(what: str, store: Place, alone: Place, *, quick: bool) -> Row:
    many, least, most = (200, 2, 3) if quick else (3_000, 5, 11)
    with service(store.url, "--allow=127.0.0.0/8", "--slots=500", "--concurrency=32") as port, runner() as loop:
        opened = loop.run(open_store(alone.url))
        lease = loop.run(opened.register("benchmark", HOUR))
        names = count()
        competitors = {
            "service": lambda: float(loop.run(_journeys(port, many, names))),
            "store": lambda: float(loop.run(lives_of(opened, lease, many))),
        }
        rounds = interleave(competitors, [("service", "store")], least=least, most=most)
        loop.run(opened.close())
    ratio = rounds.ratio("service", "store")
    return Row.paired(what, rounds.figure("service"), rounds.figure("store"), ratio, "/s")


async def _journeys(port: int, many: int, names: Iterator[int]) -> float:
    """Return how many a second came to their end."""
    async with receiving() as receiver, calling(port, CONNECTIONS + 1) as (watcher, *callers):
        left = many

        async def submit(caller: Caller) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                number = next(names)
                url = f"http://127.0.1.{number % ORIGINS + 1}:{receiver.port}/{number}"
                await caller.submit({"url": url, "method": "POST", "body": "{}"})

        began = perf_counter()
        await asyncio.gather(*map(submit, callers))
        await receiver.until(many)
        while await _alive(watcher):  # noqa: ASYNC110 - the other process tells when it is asked
            await asyncio.sleep(0.01)
        return many / (perf_counter() - began)


async def _alive(caller: Caller) -> int:
    """Return how many have not ended."""
    text, _ = await caller.get("/metrics")
    lines = [line for line in text.decode().splitlines() if line.startswith("comity_deliveries{")]
    return sum(int(line.rpartition(" ")[2]) for line in lines if '"pending"' in line or '"retrying"' in line)
