"""Running a coroutine from a command: on uvloop where it is installed, with all the open files that are allowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from comity.cli.streams import tell

T = TypeVar("T")

_WANTED_FILES = 65536


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    _allow_many_connections()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def refuse(command: str, error: Exception) -> NoReturn:
    """Say why a command cannot run, and exit with 2."""
    import typer

    tell(f"comity {command}: {error}")
    raise typer.Exit(2) from None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _allow_many_connections() -> None:
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(_WANTED_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
