"""Bulk: rows per second of `comity run`, journal and results included, beside the client alone; and its memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.bulk_memory import FLAT, LIMIT_MB, measure
from benchmarks.client import IN_FLIGHT, send
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.row import Row
from benchmarks.server import serving
from comity import AsyncClient

FEW = 100
"""Rows of the short run; what it takes is start-up, and is taken from the long one."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    many, least, most = (2_000, 2, 3) if quick else (40_000, 5, 9)
    with serving() as server, TemporaryDirectory() as folder, runner() as loop:
        inputs = [_input(Path(folder), server.url, rows) for rows in (FEW, many)]

        def alone() -> float:
            return float(loop.run(_alone(server.url, many)))

        def run() -> float:
            start_up, whole = (_seconds(each) for each in inputs)
            return (many - FEW) / (whole - start_up)

        rounds = interleave({"run": run, "client": alone}, [("run", "client")], least=least, most=most)
    what = "bulk: comity run, start-up apart, to the client alone"
    ratio = rounds.ratio("run", "client")
    yield Row.paired(what, rounds.figure("run"), rounds.figure("client"), ratio, "rows/s", least=0.8)
    yield from _memory(quick=quick)


async def _alone(url: str, requests: int) -> float:
    """Return requests per second of a client with the options that the command uses."""
    async with AsyncClient(url, concurrency=IN_FLIGHT, raise_for="never") as client:
        began = perf_counter()
        await send(partial(client.get, "/item"), requests)
        return requests / (perf_counter() - began)


def _input(folder: Path, url: str, rows: int) -> Path:
    """Write an input of so many rows."""
    path = folder / f"{rows}.jsonl"
    path.write_text("".join(f'{{"url": "{url}/item/{number}"}}\n' for number in range(rows)), encoding="utf-8")
    return path


def _seconds(path: Path) -> float:
    """Return how long one run of the command takes, on an output that does not exist yet."""
    output = path.with_suffix(".out.jsonl")
    for old in path.parent.glob(f"{output.name}*"):
        old.unlink()
    command = [sys.executable, "-m", "comity", "run", str(path), "-o", str(output)]
    began = perf_counter()
    done = subprocess.run(
        [*command, f"--concurrency={IN_FLIGHT}", "--progress=off"], capture_output=True, text=True, check=False
    )
    took = perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"comity run ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return took


def _memory(*, quick: bool) -> Iterator[Row]:
    """Yield the rows of how much memory a run and its resumption take."""
    number = 20_000 if quick else 1_000_000
    found = measure(number)
    what = f"bulk: memory of a run of {number:,} lines"
    for name, peak in (("peak", found["peak"]), ("peak when resumed", found["resume_peak"])):
        limit = f"<= {LIMIT_MB:.0f} MB"
        yield Row(what=f"{what}, {name}", ours=f"{peak:.0f} MB", target=limit, met=peak <= LIMIT_MB)
    growth = found["growth"]
    yield Row(
        what=f"{what}, end to first tenth", ratio=f"{growth:.2f}", target=f"<= {FLAT:g}x", met=bool(growth <= FLAT)
    )
