"""Feedback: what listening to a server brings, on a real upstream on loopback.

A hidden bucket says nothing but 429; with RateLimit fields a client need not be refused at all; a capacity that falls and
rises is to be found again; and processes that share a key share it evenly (Jain's index of fairness, 1984).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.row import Row
from benchmarks.server import ROOT, Server, serving
from comity import AsyncClient

SETTLED = 10.0
"""Seconds after which the limit is to be known."""

HIDDEN = "bucket 40/s burst 40 latency 20ms jitter 20ms hint no"
TOLD = "bucket 40/s burst 40 latency 20ms jitter 20ms announces draft"
STEP = "bucket 24/s burst 24 latency 20ms hint no at 30s bucket 6/s burst 6 at 60s bucket 24/s burst 24"
PROCESSES = 8

Log = Sequence[tuple[float, int]]
"""Seconds since the first arrival, and status, of each."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    wanted = 600 if quick else 2000
    yield from _bucket(HIDDEN, wanted, "hidden bucket of 40/s", waste=0.03, goodput=0.95)
    # A reset that is told in whole seconds, rounded up, leaves a part of so small a bucket unused.
    yield from _bucket(TOLD, wanted, "announced bucket of 40/s", waste=0.0, goodput=None)
    if not quick:
        yield _step()
    yield _shared(200 if quick else 400)


def _bucket(words: str, wanted: int, name: str, *, waste: float, goodput: float | None) -> Iterator[Row]:
    with serving(model=words) as server:
        asyncio.run(_fetch(server.url, wanted))
        log = _log(server)
    refused = sum(status == 429 for _, status in log)
    yield Row(
        what=f"{name}: refused sends of all",
        ours=f"{refused / len(log):.1%}",
        peer=f"{wanted:,} requests in {log[-1][0]:.0f} s",
        target=f"<= {waste:.0%}",
        met=refused / len(log) <= waste,
    )
    late = [status for at, status in log if at >= SETTLED]
    used = late.count(200) / (40 * (log[-1][0] - SETTLED)) if late else 0.0
    yield Row(
        what=f"{name}: goodput after {SETTLED:.0f} s of the limit",
        ours=f"{used:.1%}",
        target="" if goodput is None else f">= {goodput:.0%}",
        met=None if goodput is None else used >= goodput,
    )


def _step() -> Row:
    with serving(model=STEP) as server:
        asyncio.run(_fetch(server.url, 30 * (24 + 6) + 30 * 24))
        log = _log(server)
    back = next((at for at in range(60, 120) if _speed(log, at, at + 5) >= 0.9 * 24), None)
    return Row(
        what="capacity 24/s, 6/s, 24/s: seconds until 90 % of it is used again",
        ours="never" if back is None else f"{back - 60}",
        peer=f"{sum(status == 429 for _, status in log) / len(log):.1%} refused",
        target="<= 20",
        met=back is not None and back - 60 <= 20,
    )


def _shared(wanted: int) -> Row:
    with serving(model=HIDDEN) as server:
        command = [sys.executable, "-m", "benchmarks.feedback", server.url, str(wanted)]
        running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
        speeds = [json.loads(process.communicate()[0]) for process in running]
        log = _log(server)
    jain = sum(speeds) ** 2 / (len(speeds) * sum(speed**2 for speed in speeds))
    return Row(
        what=f"{PROCESSES} processes on one hidden bucket: Jain's index",
        ours=f"{jain:.2f}",
        peer=f"{sum(status == 429 for _, status in log) / len(log):.1%} refused",
        target=">= 0.9",
        met=jain >= 0.9,
    )


async def _fetch(url: str, wanted: int, **options: Any) -> float:
    """Send so many GETs, all wanted at once, and return how many were answered a second."""
    async with AsyncClient(url, adaptive=True, concurrency=20, raise_for="never", **options) as client:
        began = asyncio.get_running_loop().time()
        async for answer in client.map(("/" for _ in range(wanted)), errors="return"):
            if isinstance(answer, Exception):
                raise answer
        return wanted / (asyncio.get_running_loop().time() - began)


def _log(server: Server) -> Log:
    log = server.log()
    return [((at - log[0][0]) / 1e9, status) for at, status in log]


def _speed(log: Log, low: float, high: float) -> float:
    return sum(status == 200 and low <= at < high for at, status in log) / (high - low)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_fetch(sys.argv[1], int(sys.argv[2])))))
