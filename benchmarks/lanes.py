"""Lanes: how late healthy lanes start while a great many deliveries wait for an origin that is dead.

A `comity serve` with its default settings works on a queue to a port where nobody listens, or to one that takes every
connection and never answers. Meanwhile deliveries for healthy origins are handed in steadily; each is due at once, and is late by
what passes from its submission's sending to its coming in at the receiver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter

from benchmarks.callers import at, steadily
from benchmarks.filling import fill
from benchmarks.loops import runner
from benchmarks.places import KINDS, Place, place
from benchmarks.processes import service
from benchmarks.receiver import Receiver, receiving
from benchmarks.row import Row, digits
from comity.store.records import NewDelivery

HEALTHY = 16
RATE = 50
"""Deliveries a second, for all healthy lanes together."""
MOST = 1.0
"""The p99 of how late they may be, seconds."""

_DEAD = "http://127.0.0.99"
_PATIENCE = 60


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    queued, seconds = (500, 1.0) if quick else (100_000, 30.0)
    for kind in KINDS:
        for silent in (False, True):
            dead = "that never answers" if silent else "that refuses"
            what = f"service: {kind}, start delay of healthy lanes, {queued:,} queued to a host {dead}"
            with place(kind) as store, place(kind) as empty, runner() as loop:
                if isinstance(store, str) or isinstance(empty, str):
                    yield Row.absent(what, str(store))
                    continue
                beside = loop.run(_late(empty, seconds, silent=silent, queued=0))
                late = loop.run(_late(store, seconds, silent=silent, queued=queued))
            yield Row(
                what=what,
                ours=_told(late),
                peer=f"none queued: {_told(beside)}",
                target=f"p99 <= {MOST:g} s",
                met=at(late, 0.99) <= MOST,
            )


def _told(late: list[float]) -> str:
    return f"p50 {digits(at(late, 0.5) * 1e3)} ms, p99 {digits(at(late, 0.99) * 1e3)} ms"


async def _late(store: Place, seconds: float, *, silent: bool, queued: int) -> list[float]:
    """Return how late each delivery to the healthy lanes came, seconds."""
    async with receiving() as healthy, receiving(silent=True) as hole:
        if queued:
            # Nobody listens on port 9 (discard).
            origin = f"{_DEAD}:{hole.port if silent else 9}"
            body = b'{"event":"invoice.paid"}'
            await fill(store, NewDelivery(origin=origin, method="POST", url=f"{origin}/hook", body=body), queued)
        with service(store.url, "--allow=127.0.0.0/8") as port:
            return await _steadily(port, healthy, round(seconds * RATE))


async def _steadily(port: int, healthy: Receiver, many: int) -> list[float]:
    sent: dict[str, float] = {}

    def submissions() -> Iterator[dict[str, str]]:
        for number in range(many):
            path = f"/{number}"
            sent[path] = perf_counter()
            yield {"url": f"http://127.0.1.{number % HEALTHY + 1}:{healthy.port}{path}", "method": "POST", "body": "{}"}

    await steadily(port, RATE, submissions())
    async with asyncio.timeout(_PATIENCE):
        await healthy.until(many)
    return [healthy.came[path] - moment for path, moment in sent.items()]
