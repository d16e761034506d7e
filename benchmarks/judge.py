"""Let a judge of adaptive controls score comity's, beside known designs.

Usage: .venv/bin/python benchmarks/judge.py --judge PATH [--sets A B] [--seeds 3] [--families d,i] [--anchors NAME ...]

The judge is a simulator of upstreams that is no part of this repository: a directory with `judge.py` (`evaluate`, `total`)
and `policies.py` (`ALL`, the known designs by name). Without --judge, COMITY_JUDGE names it. The laws were tuned on set A
alone; B has other numbers and other seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ANCHORS = ("g2+aws", "aws_adaptive", "callpool")


def main() -> int:
    """Print a table for each set; return 0, whatever the scores are."""
    parser = argparse.ArgumentParser(description="Let a judge score comity's adaptive controls.")
    parser.add_argument("--judge", metavar="PATH", default=os.environ.get("COMITY_JUDGE"), help="the judge's directory")
    parser.add_argument("--sets", nargs="+", default=["A", "B"], help="the sets of numbers")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each family")
    parser.add_argument("--families", help="the starts of their names, with commas; default all")
    parser.add_argument("--anchors", nargs="*", default=ANCHORS, help="known designs to print beside")
    options = parser.parse_args()
    if not options.judge or not (Path(options.judge) / "judge.py").is_file():
        parser.error("give the judge's directory with --judge PATH or COMITY_JUDGE")
    # Run by path, the first place for modules is this directory, whose plain names would hide the judge's.
    sys.path[0:1] = [options.judge, str(Path(__file__).resolve().parents[1])]
    judge, known = import_module("judge"), import_module("policies").ALL
    from benchmarks.judge_adapter import Comity, ComityEma

    only = options.families.split(",") if options.families else None
    policies: dict[str, Any] = {each.name: each for each in (Comity, ComityEma)}
    policies |= {name: known[name] for name in options.anchors}
    for variant in options.sets:
        scores = judge.evaluate(policies, variant, options.seeds, only)
        print(f"\nset {variant}, {options.seeds} seeds, 0 to 100\n\n{_table(judge, scores)}", flush=True)
    return 0


def _table(judge: Any, scores: dict[str, dict[str, dict[str, float]]]) -> str:
    names = list(scores)
    width = max(map(len, names))
    lines = ["family".ljust(22) + "".join(name.rjust(width + 2) for name in names)]
    for family in scores[names[0]]:
        figures = (f"{scores[name][family]['score']:.0f}" for name in names)
        lines.append(family.ljust(22) + "".join(figure.rjust(width + 2) for figure in figures))
    totals = (f"{judge.total(scores[name]):.1f}" for name in names)
    return "\n".join([*lines, "geometric mean".ljust(22) + "".join(total.rjust(width + 2) for total in totals)])


if __name__ == "__main__":
    sys.exit(main())
