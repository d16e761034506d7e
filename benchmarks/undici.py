"""Undici: Node's HTTP client behind p-limit, in a Node process that measures itself (node/undici.mjs)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from benchmarks.peers import Absent

FOLDER = Path(__file__).with_name("node")
WARM_UP = 10_000
"""Requests until what V8 compiles is compiled: it goes on getting faster for that long."""

INSTALL = ("install", "--engine-strict", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund")


@contextmanager
def undici(url: str, path: str) -> Iterator[Callable[[int, int], float]]:
    """Run Node for as long as the block lasts; the value sends `requests`, `at_once`, and returns requests per second.

    Raises:
        Absent: there is no Node here, or it cannot run this.
    """
    node = _installed()
    script = FOLDER / "undici.mjs"
    with subprocess.Popen([node, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def speed(requests: int, at_once: int) -> float:
            print(f"{url}{path}", requests, at_once, file=lines, flush=True)
            return float(answers.readline())

        try:
            if not answers.readline():
                raise Absent("node cannot run undici.mjs")
            speed(WARM_UP, 50)
            yield speed
        finally:
            lines.close()
            process.wait(timeout=10)


def versions() -> str:
    """Return the versions of Node and of the packages, or why there are none."""
    try:
        node = subprocess.run([_installed(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except Absent as why:
        return str(why)
    pins = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return ", ".join([node, *(f"{name} {version}" for name, version in pins.items())])


@cache
def _installed() -> str:
    """Install the pinned packages, which asks nobody when they are there, and return the path of Node."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Absent(f"{'node' if node is None else 'npm'} is not installed")
    try:
        subprocess.run(
            [npm, *INSTALL, "--loglevel=error"], cwd=FOLDER, stdout=subprocess.DEVNULL, timeout=120, check=True
        )
    except subprocess.SubprocessError:
        raise Absent("npm cannot install undici") from None
    return node
