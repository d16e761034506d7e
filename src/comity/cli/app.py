"""The application: which subcommands there are. What they need is imported when they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

import comity
from comity.cli.asking import cancel, lanes, ls, replay, retry, schedules, show, submit, tail
from comity.cli.demo import demo
from comity.cli.doctor import doctor
from comity.cli.get import get
from comity.cli.run import run
from comity.cli.sample import sample
from comity.cli.serving import migrate, serve, worker
from comity.cli.simulate import simulate
from comity.cli.upstream import upstream

app = typer.Typer(
    name="comity",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(value: bool) -> None:
    if value:
        print(f"comity {comity.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Call any HTTP API as fast as it lets you, and never faster."""


def _paragraphs(command: Callable[..., None]) -> str:
    """Return a command's docstring with a line for each paragraph, for a terminal of any width to wrap."""
    text = inspect.getdoc(command) or ""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


COMMANDS = (
    *(run, get, simulate, upstream, sample),
    *(serve, worker, migrate, doctor, demo),
    *(submit, ls, show, cancel, retry, replay, schedules, lanes, tail),
)

for command in COMMANDS:
    app.command(help=_paragraphs(command))(command)
