"""What the files in deploy/ tell comity."""

from __future__ import annotations

import json
import re
from pathlib import Path

import typer

from comity.cli.app import app
from comity.settings import CONFIG, TABLE, from_environment, from_flags, resolve

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIABLES = {row.variable for row in TABLE} | {CONFIG}


def text(name):
    return (DEPLOY / name).read_text(encoding="utf-8")


def assignments(lines):
    """Return the variables that lines set, also those that are commented out; each has to be one of comity's."""
    found = dict(line.removeprefix("#").split("=", 1) for line in lines if re.match(r"#?COMITY_", line))
    assert not found.keys() - VARIABLES
    return found


def settings(words, environ):
    """Return the checked settings with which a command would run."""
    command, *rest = words
    context = typer.main.get_command(app).commands[command].make_context(command, rest)
    return resolve(TABLE, [from_flags(context.params), from_environment(environ)])


SAMPLE = assignments(text("comity.env").splitlines())
HELD = {name: value for name, value in SAMPLE.items() if f"\n{name}=" in text("comity.env")}
IMAGE = text("Dockerfile").replace("\\\n", " ")
CMD = json.loads(re.search(r"^CMD (.*)", IMAGE, re.MULTILINE)[1])
