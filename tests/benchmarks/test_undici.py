"""Undici: a peer that is not of Python, and may be absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import undici
from benchmarks.peers import Absent


@pytest.fixture(autouse=True)
def _ask_again():
    undici._installed.cache_clear()
    yield
    undici._installed.cache_clear()


def _program(folder: Path, name: str, line: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{line}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("programs", "why"),
    [
        ({}, "node is not installed"),
        ({"node": "exit 0"}, "npm is not installed"),
        ({"node": "exit 0", "npm": "exit 1"}, "npm cannot install undici"),
        ({"node": "exit 1", "npm": "exit 0"}, "node cannot run undici.mjs"),
    ],
)
def test_where_it_cannot_run_it_is_absent_and_says_why(tmp_path, monkeypatch, programs, why):
    for name, line in programs.items():
        _program(tmp_path, name, line)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Absent, match=f"^{why}$"), undici.undici("http://127.0.0.1:1", "/item"):
        pass


def test_every_package_is_pinned_to_one_version():
    pins = json.loads((undici.FOLDER / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert all(version.replace(".", "").isdigit() for version in pins.values())
