"""Write docs/requirements.md: which test shows which requirement, and what is open.

    python scripts/requirements.py            write the page
    python scripts/requirements.py --check    fail when an id is unaccounted for or the page is stale
    python scripts/requirements.py --tidy     drop from docs/open.toml what tests show by now, then write the page

docs/requirements.toml holds the claims, docs/open.toml what no test shows yet (by area) and what comity does otherwise (with
the reason). A test shows a claim by naming its id in its docstring; `CP-009..012` there, as in open.toml, names four ids.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ID = re.compile(r"\b[A-Z]{2}-\d{2,3}(?:\.\.\d{2,3})?\b")
OPEN_HEAD = "# What no test shows yet, by area. `python scripts/requirements.py --tidy` drops what tests show by now.\n"
DIFFERENT_HEAD = "# What comity does otherwise, and why.\n"


@dataclass(frozen=True, kw_only=True)
class Book:
    """Everything the page is made of: the claims, what tests cite, what is open and what is different."""

    families: Mapping[str, Mapping[str, str]]  # title -> id -> claim
    open: Mapping[str, str] = field(default_factory=dict)  # id -> area
    different: Mapping[str, str] = field(default_factory=dict)  # id -> reason
    cited: Mapping[str, list[str]] = field(default_factory=dict)  # id -> one file name for each test

    @property
    def ids(self) -> list[str]:
        """Every id, in the order of the page."""
        return [name for claims in self.families.values() for name in claims]


def expand(text: str) -> list[str]:
    """Return the ids that `text` names: "CP-009..011" is CP-009, CP-010, CP-011."""
    first, _, last = text.partition("..")
    family, _, number = first.partition("-")
    numbers = range(int(number), int(last or number) + 1)
    return [f"{family}-{n:0{len(number)}}" for n in numbers]


def compact(ids: Iterable[str]) -> list[str]:
    """Return `ids` with neighbours joined into ranges: the inverse of `expand`."""
    runs: list[list[str]] = []
    for name in ids:
        if runs and expand(f"{runs[-1][-1]}..{name.partition('-')[2]}") == [runs[-1][-1], name]:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [run[0] if len(run) == 1 else f"{run[0]}..{run[-1].partition('-')[2]}" for run in runs]


def citations(tests: Path, *suites: Path) -> dict[str, list[str]]:
    """Return for each id the files of the test functions whose docstring names it, one entry for each test.

    Args:
        tests: the tests' directory.
        suites: packages of tests that others run too; all their files count.
    """
    cited: dict[str, list[str]] = {}
    files = [(path, tests) for path in sorted(tests.rglob("test_*.py"))]
    files += [(path, suite.parent) for suite in suites for path in sorted(suite.rglob("*.py"))]
    for path, above in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                named = ID.findall(ast.get_docstring(node) or "")
                for name in dict.fromkeys(name for text in named for name in expand(text)):
                    cited.setdefault(name, []).append(path.relative_to(above).as_posix())
    return cited


def read(root: Path) -> Book:
    """Read the claims, the open list and the tests under `root`."""
    families = tomllib.loads((root / "docs/requirements.toml").read_text(encoding="utf-8"))
    known = tomllib.loads((root / "docs/open.toml").read_text(encoding="utf-8"))
    return Book(
        families={family["title"]: family["claims"] for family in families.values()},
        open={name: area for area, specs in known["open"].items() for spec in specs for name in expand(spec)},
        different={name: why for spec, why in known["different"].items() for name in expand(spec)},
        cited=citations(root / "tests", root / "src/comity/testing/conformance"),
    )


def problems(book: Book) -> list[str]:
    """Return one line for each id that is unaccounted for, accounted for twice, or not an id at all."""
    ids = set(book.ids)
    prefixes = {name.partition("-")[0] for name in ids}
    missing = [
        name for name in book.ids if name not in book.cited and name not in book.open and name not in book.different
    ]
    found = [f"{', '.join(compact(missing))}: no test cites it, and docs/open.toml does not list it"] if missing else []
    settled = [name for name in book.ids if name in book.open and name in book.cited]
    if settled:
        found.append(
            f"{', '.join(compact(settled))}: listed open but cited by a test; run scripts/requirements.py --tidy"
        )
    found += [f"{name}: listed both open and different" for name in book.open if name in book.different]
    found += [
        f"{name}: listed in docs/open.toml but no such requirement"
        for name in {**book.open, **book.different}
        if name not in ids
    ]
    found += [
        f"{name}: cited by {files[0]} but no such requirement"
        for name, files in book.cited.items()
        if name not in ids and name.partition("-")[0] in prefixes
    ]
    return found


def render(book: Book) -> str:
    """Return the page."""
    areas = Counter(book.open.values())
    shown = sum(name in book.cited for name in book.ids)
    lines = [
        "# Requirements",
        "",
        "Generated by `make docs` from requirements.toml, open.toml and the docstrings of the tests. Do not edit.",
        "",
        f"{len(book.ids)} claims: {shown} shown by tests, {sum(areas.values())} open"
        + "".join(f", {count} of them {area}" for area, count in sorted(areas.items()))
        + f"; {len(book.different)} answered differently, with the reason.",
    ]
    for title, claims in book.families.items():
        lines += ["", f"## {title}", "", "| id | claim | tests | state |", "|---|---|---|---|"]
        lines += [
            f"| {name} | {_cell(text)} | {_tests(book, name)} | {_state(book, name)} |" for name, text in claims.items()
        ]
    return "\n".join(lines) + "\n"


def tidied(book: Book) -> str:
    """Return docs/open.toml without the open ids that tests cite."""
    rank = {name: place for place, name in enumerate(book.ids)}
    lines = [OPEN_HEAD + "[open]"]
    for area in dict.fromkeys(book.open.values()):
        left = [name for name, its in book.open.items() if its == area and name not in book.cited]
        specs = compact(sorted(left, key=lambda name: rank.get(name, len(rank))))
        lines += [f"{area} = [", *(f'    "{spec}",' for spec in specs), "]"]
    lines += ["", DIFFERENT_HEAD + "[different]"]
    lines += [f"{name} = {json.dumps(why, ensure_ascii=False)}" for name, why in book.different.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _tests(book: Book, name: str) -> str:
    files = Counter(book.cited.get(name, []))
    return f"{files.total()}: {', '.join(files)}" if files else ""


def _state(book: Book, name: str) -> str:
    if name in book.different:
        return f"different: {_cell(book.different[name])}"
    if name in book.open:
        return f"open ({book.open[name]})"
    return "shown" if name in book.cited else "unaccounted for"


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check the page; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Write docs/requirements.md from the claims and the tests that cite them."
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="write nothing; fail when the page or the lists are not true")
    how.add_argument("--tidy", action="store_true", help="first drop from docs/open.toml what tests show by now")
    options = parser.parse_args(arguments)

    page, book = root / "docs/requirements.md", read(root)
    if options.tidy:
        (root / "docs/open.toml").write_text(tidied(book), encoding="utf-8")
        book = read(root)
    found = problems(book)
    if not options.check:
        page.write_text(render(book), encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != render(book):
        found.append("docs/requirements.md is stale: run `make docs`")
    print(
        "\n".join(found) if found else f"{len(book.ids)} requirements accounted for",
        file=sys.stderr if found else sys.stdout,
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
