"""Run the benchmarks and print one table.

Usage: .venv/bin/python benchmarks/run.py [names...] [--quick]

Every figure is a ratio measured in one run (see paired.py), because absolute times say more about the machine than about
the code. `--quick` measures too little to be believed; it shows that everything works.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.row import Row

SERVICE = ("intake", "journeys", "claims", "lanes", "pages", "pruning")
NAMES = ("limiter", "exactness", "waste", "feedback", "client", "bulk", "store", "postgres", *SERVICE)

NOTES = """\
A ratio is the median of the ratios of paired, interleaved rounds; ± is half its 95 % interval, and ? marks one above 5 %.
Rounds go on until the spread is below 5 % or a bound is reached; the first round warms up and does not count.
Garbage collector: run before and off during each sample of `limiter`, as it is by default everywhere else.
Rows of the service: a `comity serve` process with its default settings unless a module says otherwise, asked over HTTP.
Timings in `client`: comity and its transport measure every phase, httpx and httpx2 one duration, aiohttp and undici nothing.
"""


def main() -> int:
    """Measure what was asked for; return 0, whatever the figures are."""
    parser = argparse.ArgumentParser(description="Measure comity beside its peers.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"what to measure: {', '.join(NAMES)}; default all")
    parser.add_argument("--quick", action="store_true", help="measure little, only to see that everything works")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    # Run by path, the first place for modules is this directory, whose plain names would hide others.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    rows = _measure(options.names or NAMES, quick=options.quick)
    from benchmarks.machine import facts
    from benchmarks.row import table, verdict

    print(f"\n{table(rows)}\n\n{verdict(rows)}\n\n{NOTES}\n{facts()}")
    if options.quick:
        print("quick     far too few repetitions: these figures are no result")
    return 0


def _measure(names: tuple[str, ...] | list[str], *, quick: bool) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        for row in import_module(f"benchmarks.{name}").rows(quick=quick):
            rows.append(row)
            print(f"  {row.what}: {row.ratio or row.ours or row.peer}", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
