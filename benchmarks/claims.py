"""Claims: how long a worker's claim takes in a queue that is long, to one that is short."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from time import perf_counter

from benchmarks.filling import HOUR, fill
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.places import KINDS, place
from benchmarks.row import Row
from comity.service.stores import open_store
from comity.store.base import Store
from comity.store.records import Lease, NewDelivery

ORIGIN = "https://host.example:443"
WAITING = NewDelivery(origin=ORIGIN, method="POST", url=f"{ORIGIN}/hook", body=b'{"event":"invoice.paid"}')
CLAIMED = 64
_TURNS = 20


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    queues = (500, 2_000, 4_000) if quick else (10_000, 1_000_000, 3_000_000)
    least, most = (2, 3) if quick else (7, 15)
    few, *longer = queues
    for kind in KINDS:
        whats = {many: f"service: {kind}, claim of {CLAIMED}, with {many:,} queued to {few:,}" for many in longer}
        with runner() as loop, ExitStack() as opened:
            places = {many: opened.enter_context(place(kind)) for many in queues}
            competitors = {}
            for many, found in places.items():
                if isinstance(found, str):
                    break
                loop.run(fill(found, WAITING, many))
                store = loop.run(open_store(found.url))
                opened.callback(_close, loop, store)
                competitors[str(many)] = partial(_sample, loop, store, loop.run(_owning(store)))
            else:
                rounds = interleave(competitors, [(str(many), str(few)) for many in longer], least=least, most=most)
                for many, what in whats.items():
                    long, short = rounds.figure(str(many)), rounds.figure(str(few))
                    yield Row.paired(what, long, short, rounds.ratio(str(many), str(few)), "ms", most=1.2)
                continue
            yield from (Row.absent(what, found) for what in whats.values())


def _sample(loop: asyncio.Runner, store: Store, lease: Lease) -> float:
    return float(loop.run(_claim(store, lease)))


async def _claim(store: Store, lease: Lease) -> float:
    """Return how long a claim takes, ms."""
    took = 0.0
    for _ in range(_TURNS):
        began = perf_counter()
        # A lane alone gets half of what is free.
        claimed = await store.claim(lease, 2 * CLAIMED)
        took += perf_counter() - began
        assert len(claimed.claims) == CLAIMED
        await store.give_back(claimed.claims)
    return took / _TURNS * 1e3


def _close(loop: asyncio.Runner, store: Store) -> None:
    loop.run(store.close())


async def _owning(store: Store) -> Lease:
    lease = await store.register("benchmark", HOUR)
    await store.own(lease, 1)
    return lease
