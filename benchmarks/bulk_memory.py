"""How much memory `comity run` takes for a million lines, and whether it stays flat.

Usage: .venv/bin/python benchmarks/bulk_memory.py [--rows 1000000] [--ordered]

The run is a process of its own, from the file to the output and journal, with everything real but the wire: a transport
that answers at once, so that a million rows take a minute or two and nothing else is measured. A sample of the resident
set is taken at each tenth of the rows; flat means that the last nine tenths added almost nothing. A second process then
resumes the finished run, which reads the output, compares the input and has nothing to send.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from comity.bulk.job import Job, run
from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response
from comity.engine.call import Exchange, Slot
from comity.policy.attempt import Timings
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.timeouts import Timeout

LIMIT_MB = 150.0
FLAT = 1.1
"""The most that the resident set may have grown from the first tenth to the end, as a factor."""

_HEADERS = Headers((("content-type", "application/json"),))
_TIMINGS = Timings(upload=0.0001, response=0.012, download=0.0001)


class Instant:
    """A transport that answers at once, and takes a sample of the memory now and then."""

    def __init__(self, rows: int) -> None:
        self._every, self._sent = max(1, rows // 10), 0
        self.samples: list[float] = []

    async def send(self, request: Request, _timeout: Timeout, slot: Slot) -> Exchange[Response]:
        """Answer with a small JSON body."""
        slot.sent()
        await asyncio.sleep(0)
        slot.answered()
        self._sent += 1
        if self._sent % self._every == 0:
            self.samples.append(memory("VmRSS"))
        response = Response(200, _HEADERS, b'{"id": 1, "name": "a name"}', request=request, timings=_TIMINGS)
        return Exchange(outcome=Outcome(status=200), value=response, timings=_TIMINGS)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def memory(name: str) -> float:
    """Return a figure of this process from the kernel, MB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(name)


def measure(rows: int, *, ordered: bool = False) -> dict[str, Any]:
    """Return the peaks (MB), the growth from the first tenth to the end, and the rows per second of a run and of resuming it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.jsonl")
        with source.open("w", encoding="ascii") as file:
            file.writelines(f'{{"id": "row-{n}", "url": "http://127.0.0.1:1/things/{n}"}}\n' for n in range(rows))
        first, second = (_child(source, rows, ordered=ordered) for _ in range(2))
    samples = first["samples"]
    return {
        "rows": rows,
        "peak": first["peak"],
        "growth": samples[-1] / samples[0],
        "rate": rows / first["seconds"],
        "resume_peak": second["peak"],
        "resume_seconds": second["seconds"],
    }


def _child(source: Path, rows: int, *, ordered: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", str(source), "--rows", str(rows), *["--ordered"] * ordered]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _run_child(source: Path, rows: int, *, ordered: bool) -> None:
    transport = Instant(rows)
    job = Job(
        inputs=(str(source),),
        output=str(source.with_name("out.jsonl")),
        policy=Policy(concurrency=50),
        ordered=ordered,
        progress="off",
        transport=transport,
    )
    began = time.perf_counter()
    report = asyncio.run(run(job))
    assert report.exit_code == 0, report.lines()
    seconds = time.perf_counter() - began
    print(json.dumps({"peak": memory("VmHWM"), "samples": transport.samples, "seconds": seconds}))


def main() -> int:
    """Measure, print, and return 1 when a bound is broken."""
    parser = argparse.ArgumentParser(description="Measure the memory of a bulk run.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        _run_child(options.child, options.rows, ordered=options.ordered)
        return 0
    found = measure(options.rows, ordered=options.ordered)
    print(
        f"{found['rows']:,} rows at {found['rate']:,.0f}/s without a wire; resuming them took {found['resume_seconds']:.1f} s"
    )
    print(f"peak at most {LIMIT_MB:.0f} MB, growth from the first tenth to the end at most {FLAT}x:")
    print(f"peak {found['peak']:.0f} MB, growth {found['growth']:.2f}x, resume {found['resume_peak']:.0f} MB")
    bad = max(found["peak"], found["resume_peak"]) > LIMIT_MB or found["growth"] > FLAT
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
