"""Postgres: whole lives of deliveries per second, as in `store`, in a database that several processes could share.

The measures are pgbench's own transaction (like TPC-B) on the same server, as many at once as suit it, and the jobs of other
queues (see `queues`), in the same run; the SQLite store stands beside, which wants no server.
`places` says which server.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from benchmarks import peers, queues
from benchmarks.filling import HOUR
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.places import place
from benchmarks.row import Row
from benchmarks.store import SUBMITTERS, lives_of
from comity.service.stores import open_store
from comity.store.base import Store

T = TypeVar("T")

CLIENTS = 16
TPC = "tpc"
PEERS = {"procrastinate": queues.procrastinate, "saq": queues.saq}
OURS = f"lives of deliveries of {SUBMITTERS} submitters"
WHAT = {
    ("lives", TPC): (f"store: Postgres, {OURS}, to pgbench's TPC-B of {CLIENTS}", 5),
    ("lives", "procrastinate"): (f"store: Postgres, {OURS}, to procrastinate's jobs", 30),
    ("lives", "saq"): (f"store: Postgres, {OURS}, to SAQ's jobs on Postgres", 30),
    ("sqlite", "procrastinate"): (f"store: SQLite, {OURS}, to procrastinate's jobs", 20),
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: lives and jobs a sample, seconds of pgbench and its scale, rounds."""

    many: int
    jobs: int
    seconds: int
    scale: int
    least: int
    most: int


QUICK, FULL = Size(1_000, 100, 1, 1, 2, 3), Size(20_000, 1_000, 5, CLIENTS, 5, 9)


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    if peers.find("asyncpg") is None or shutil.which("pgbench") is None:
        yield from (Row.absent(what) for what, _ in WHAT.values())
        return
    with runner() as loop, ExitStack() as places:
        found = {name: places.enter_context(place("Postgres")) for name in ("lives", TPC, *PEERS)}
        urls = {name: each.url for name, each in found.items() if not isinstance(each, str)}
        if urls.keys() != found.keys():
            yield from (Row.absent(what, "no server runs") for what, _ in WHAT.values())
            return
        file = places.enter_context(place("SQLite"))
        assert not isinstance(file, str)
        yield from _measured(loop, urls | {"sqlite": file.url}, QUICK if quick else FULL)


def _measured(loop: asyncio.Runner, urls: Mapping[str, str], size: Size) -> Iterator[Row]:
    _pgbench(urls[TPC], "-i", "-q", "-s", str(size.scale))
    competitors: dict[str, Callable[[], float]] = {TPC: lambda: _transactions(urls[TPC], size.seconds)}
    ends: list[Callable[[], Awaitable[None]]] = []
    for name in ("lives", "sqlite"):
        competitors[name] = _lives(loop, loop.run(open_store(urls[name])), size.many, ends)
    for name, peer in PEERS.items():
        # Not one that is absent: its row says so.
        with suppress(peers.Absent):
            queue = loop.run(peer(urls[name], "public"))
            competitors[name] = partial(_jobs, loop, queue, size.jobs)
            ends.append(queue.close)
    pairs = [pair for pair in WHAT if competitors.keys() >= set(pair)]
    try:
        rounds = interleave(competitors, pairs, least=size.least, most=size.most)
    finally:
        for end in ends:
            loop.run(_awaited(end))
    for pair, (what, least) in WHAT.items():
        if pair not in pairs:
            yield Row.absent(what)
            continue
        ours, peer_figure = map(rounds.figure, pair)
        yield Row.paired(what, ours, peer_figure, rounds.ratio(*pair), "/s", least=least)


def _lives(
    loop: asyncio.Runner, store: Store, many: int, ends: list[Callable[[], Awaitable[None]]]
) -> Callable[[], float]:
    lease = loop.run(store.register("benchmark", HOUR))
    ends.append(store.close)
    return lambda: float(loop.run(lives_of(store, lease, many)))


def _jobs(loop: asyncio.Runner, queue: queues.Queue, many: int) -> float:
    return float(loop.run(_awaited(queue.lives, many)))


async def _awaited(call: Callable[..., Awaitable[T]], *arguments: object) -> T:
    return await call(*arguments)


def _transactions(url: str, seconds: int) -> float:
    clients = ("-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-n", "-M", "prepared")
    found = re.search(r"^tps = ([\d.]+)", _pgbench(url, *clients), re.MULTILINE)
    assert found is not None
    return float(found[1])


def _pgbench(url: str, *arguments: str) -> str:
    found = urlsplit(url)
    environment = {**os.environ, "PGPASSWORD": found.password or ""}
    where = ["-h", found.hostname or "127.0.0.1", "-p", str(found.port or 5432), "-U", found.username or "postgres"]
    command = ["pgbench", *arguments, *where, found.path.lstrip("/")]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
