"""The README and the page on the client are true: their programs run, and the table of options is the command's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from comity.testing import Upstream

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLIENT = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README + CLIENT, re.DOTALL)


def comity_help(*command):
    wide = {"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}
    ran = subprocess.run(
        [sys.executable, "-m", "comity", *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | wide,
    )
    return ran.stdout


def test_there_are_programs_to_run():
    assert len(PROGRAMS) >= 6


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_and_prints_something(program, tmp_path):
    with Upstream() as upstream:
        local = program.replace("https://api.example.com", f"{upstream.url}/ok")
        command = [sys.executable, "-W", "error", "-c", local]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip()


def test_the_table_of_options_is_that_of_comity_run():
    table = README.partition("### Options")[2].partition("Durations are")[0]
    documented = set(re.findall(r"`(?:-o`, `)?(--[a-z-]+)", table))
    offered = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", comity_help("run"))) - {"--help"}
    assert documented == offered


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^    comity ([a-z]+)", README, re.MULTILINE))))
def test_a_command_that_is_shown_exists(command):
    assert f" {command} [OPTIONS]" in comity_help(command)
