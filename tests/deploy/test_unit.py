"""Deployment by an image or a unit of systemd: what they tell comity is something that it knows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from comity.policy.units import required
from comity.settings import TABLE, from_environment, resolve
from tests.deploy.told import CMD, DEPLOY, HELD, IMAGE, SAMPLE, VARIABLES, assignments, settings, text

UNIT = [line for line in text("comity.service").splitlines() if "=" in line and not line.startswith("#")]


def said(directive):
    return [value for name, value in (line.split("=", 1) for line in UNIT) if name == directive]


def test_the_environment_file_names_settings_that_exist_with_values_that_can_be_read():
    """NP-035"""
    assert resolve(TABLE, [from_environment(SAMPLE)])["allow"] == ["10.1.0.0/16", "hooks.internal.example"]
    assert HELD == {"COMITY_LOG": "json"}


def test_the_image_runs_as_nobody_in_particular_and_takes_extras_that_exist():
    """NP-036: it serves, and looks after itself, on the default port."""
    named = set(re.search(r"'\.\[([\w,]+)\]'", IMAGE)[1].split(","))
    project = (DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in named)
    assert re.search(r"^USER (\w+)", IMAGE, re.MULTILINE)[1] == "comity"
    assert set(re.findall(r"COMITY_\w+(?==)", IMAGE)) <= VARIABLES
    assert settings(CMD, {})["port"] == 3000
    assert "http://127.0.0.1:3000/healthz" in re.search(r"^HEALTHCHECK (.*)", IMAGE, re.MULTILINE)[1]
    assert re.search(r"^EXPOSE (\d+)", IMAGE, re.MULTILINE)[1] == "3000"


def test_what_the_unit_starts_is_understood_and_kept_within_bounds():
    """NP-035"""
    program, *words = shlex.split(said("ExecStart")[0])
    found = settings(words, assignments(said("Environment")) | HELD)
    assert (Path(program).name, found["host"]) == ("comity", "127.0.0.1")
    assert Path(found["store"].removeprefix("sqlite:///")) == Path("/var/lib", said("StateDirectory")[0], "comity.db")
    assert required(said("TimeoutStopSec")[0], "TimeoutStopSec") > found["drain"]
    assert (said("NoNewPrivileges"), said("ProtectSystem"), said("DynamicUser")) == (["yes"], ["strict"], ["yes"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_understands_the_unit(tmp_path):
    unit = tmp_path / "comity.service"
    unit.write_text(text("comity.service").replace("/opt/comity/bin/comity", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
