"""Pruning: how long submissions take while a million deliveries are being deleted, to while none are.

They come steadily and not as fast as they can: else their queue would be what is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from benchmarks.callers import Caller, at, calling, steadily
from benchmarks.filling import ALL, HOUR, fill
from benchmarks.intake import FIELDS
from benchmarks.loops import runner
from benchmarks.places import KINDS, Place, place
from benchmarks.processes import service
from benchmarks.row import Row, digits
from comity.store.records import NewDelivery

RATE = 50
"""Submissions a second."""
MOST = 20
"""The p99 of their answers, ms."""

_ORIGIN = "https://done.example:443"
_OLD = NewDelivery(
    origin=_ORIGIN, method="POST", url=f"{_ORIGIN}/hook", body=b'{"event":"invoice.paid"}', idempotency_key="key"
)
_SETTINGS = ("--allow=127.0.0.0/8", "--max-queue=off")
_KEPT = "--keep-ended=3650d"
_LONGEST = 900


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    many, seconds = (2_000, 1.0) if quick else (1_000_000, 30.0)
    for kind in KINDS:
        what = f"service: {kind}, POST /requests while {many:,} are pruned"
        with place(kind) as store:
            yield Row.absent(what, store) if isinstance(store, str) else _row(what, store, many, seconds)


def _row(what: str, store: Place, many: int, seconds: float) -> Row:
    with runner() as loop:
        # Events and keys are old enough too.
        loop.run(fill(store, _OLD, many, "completed", age=8 * 24 * HOUR, tables=ALL))
        with service(store.url, _KEPT, *_SETTINGS) as port:
            before, _ = loop.run(_steadily(port, seconds, 0))
        began = perf_counter()
        with service(store.url, "--keep-ended=7d", *_SETTINGS) as port:
            during, left = loop.run(_steadily(port, _LONGEST, many))
        took = perf_counter() - began
        with service(store.url, _KEPT, *_SETTINGS) as port:
            after, _ = loop.run(_steadily(port, seconds, 0))
    p99 = at(during, 0.99) * 1e3
    without = before + after
    gone = f"{digits((many - left) / took)} deleted/s"
    return Row(
        what=what,
        ours=f"p50 {digits(at(during, 0.5) * 1e3)} ms, p99 {digits(p99)} ms; {gone}",
        peer=f"none pruned: p50 {digits(at(without, 0.5) * 1e3)} ms, p99 {digits(at(without, 0.99) * 1e3)} ms",
        target=f"p99 <= {MOST} ms",
        met=p99 <= MOST,
    )


async def _steadily(port: int, seconds: float, finished: int) -> tuple[list[float], int]:
    """Submit for so long, or until none of the finished are left; return how long each took, and how many are left."""
    left, until = finished, perf_counter() + seconds

    def submissions() -> Iterator[dict[str, Any]]:
        while perf_counter() < until and (left or not finished):
            yield FIELDS

    async def count() -> None:
        nonlocal left
        async with calling(port, 1) as (caller,):
            while left:
                left = await _completed(caller)
                await asyncio.sleep(0.5)

    counting = asyncio.create_task(count())
    try:
        return await steadily(port, RATE, submissions()), left
    finally:
        counting.cancel()
        await asyncio.wait([counting])


async def _completed(caller: Caller) -> int:
    text, _ = await caller.get("/metrics")
    line = next(line for line in text.decode().splitlines() if line.startswith('comity_deliveries{state="completed"}'))
    return int(line.rpartition(" ")[2])
