"""Exactness: does a rate hold in every window, and how much of it is used?

200 requests or so wait at once for a limit of 20 per second. Windows are counted where the moments were noted: at the
sender when the first byte was handed to the socket, or in the log of a server whose answers take a random time up to
300 ms, a random part of it before the request arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import monotonic_ns
from typing import Any

from benchmarks import peers
from benchmarks.paired import Figure
from benchmarks.recorder import Recorder
from benchmarks.row import Row, spread
from benchmarks.server import Server, serving
from benchmarks.windows import cycle, over
from comity import AsyncClient, Rate

LIMIT, PER = 20, 1.0
DELAY = 0.3
NS = 1_000_000_000

Get = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Run:
    """The moments of one run, ns."""

    sent: list[int]
    arrived: list[int]
    latencies: list[int] = field(default_factory=list)


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    cycles, runs = (3, 1) if quick else (10, 3)
    with serving() as direct, serving(delay=DELAY) as delayed:
        exact = [_ours(direct, cycles, "client") for _ in range(runs)]
        yield _windows("client: windows over at the sender", [run.sent for run in exact], target=True)
        yield _used("client: rate used", exact, 0.99)
        exact = [_ours(delayed, cycles, "server") for _ in range(runs)]
        yield _windows("server: windows over in the server's log", [run.arrived for run in exact], target=True)
        yield _used("server: rate used, latency known", exact, 0.97)
        loose = _ours(delayed, cycles, "client")
        yield _windows("client: windows over in the delayed server's log", [loose.arrived])
        for peer, make in (("aiolimiter", _aiolimiter), ("pyrate-limiter", _pyrate)):
            name = f"aiohttp + {peer}"
            if peers.find(peer.replace("-", "_")) is None:
                yield Row.absent(f"exactness, {name}")
                continue
            run = asyncio.run(_theirs(direct, cycles, make))
            yield _windows(f"{name}: windows over at the sender", [run.sent])
            yield _used(f"{name}: rate used", [run], None)
            run = asyncio.run(_theirs(delayed, cycles, make))
            yield _windows(f"{name}: windows over in the delayed server's log", [run.arrived])


def _ours(server: Server, cycles: int, measured: Any) -> Run:
    server.reset()
    recorder = Recorder()

    async def run() -> None:
        rate = Rate(LIMIT, PER, measured=measured)
        async with AsyncClient(server.url, rate=rate, concurrency=100, transport=recorder) as client:
            await _all(cycles, lambda: client.get("/"))

    asyncio.run(run())
    return Run(recorder.sent, _arrivals(server), recorder.latencies)


async def _theirs(server: Server, cycles: int, make: Callable[[], tuple[Get, Callable[[], None]]]) -> Run:
    import aiohttp

    server.reset()
    acquire, close = make()
    sent: list[int] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def get() -> None:
            await acquire()
            sent.append(monotonic_ns())
            async with session.get(server.url) as response:
                await response.read()

        await _all(cycles, get)
    close()
    return Run(sent, await asyncio.to_thread(_arrivals, server))


def _aiolimiter() -> tuple[Get, Callable[[], None]]:
    module: Any = peers.find("aiolimiter")
    return module.AsyncLimiter(LIMIT, PER).acquire, lambda: None


def _pyrate() -> tuple[Get, Callable[[], None]]:
    module: Any = peers.find("pyrate_limiter")
    limiter = module.Limiter(module.Rate(LIMIT, round(PER * 1000)))
    return lambda: limiter.try_acquire_async("benchmark"), limiter.close


async def _all(cycles: int, get: Get) -> None:
    await asyncio.gather(*(get() for _ in range((cycles + 1) * LIMIT)))


def _arrivals(server: Server) -> list[int]:
    return [arrival for arrival, _ in server.log()]


def _windows(what: str, runs: Sequence[Sequence[int]], *, target: bool = False) -> Row:
    found = sum(over(run, LIMIT, round(PER * NS)) for run in runs)
    return Row(
        what=f"exactness, {what}",
        ours=f"{found} of {sum(map(len, runs))}",
        peer=f"{LIMIT} per {PER:g} s",
        target="0" if target else "",
        met=found == 0 if target else None,
    )


def _used(what: str, runs: Sequence[Run], least: float | None) -> Row:
    """Return the row of the rate that was used, against n/per or n/(per + median latency)."""
    wanted = [PER * NS + (median(run.latencies) if "latency" in what else 0) for run in runs]
    taken = [cycle(run.sent, LIMIT) for run in runs]
    ratio = Figure.of(a / b for a, b in zip(wanted, taken, strict=True))
    return Row(
        what=f"exactness, {what}",
        ours=f"{LIMIT * NS / median(taken):.2f} /s",
        peer=f"{LIMIT * NS / median(wanted):.2f} /s",
        ratio=spread(ratio, places=3),
        target="" if least is None else f">= {least:g}x",
        met=None if least is None else ratio.median >= least,
    )
