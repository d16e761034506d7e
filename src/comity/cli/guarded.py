"""Guarded: what a command of the service fails with, as a line on standard error and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from comity.cli.loops import refuse
from comity.cli.streams import tell
from comity.errors import ComityError, OptionsError

T = TypeVar("T")

_EXTRAS = {
    "starlette": "serve",
    "uvicorn": "serve",
    "httptools": "serve",
    "cryptography": "serve",
    "asyncpg": "postgres",
}


def guarded(command: str, work: Callable[[], T]) -> T:
    """Do the work of a command; return what it returns.

    Raises:
        typer.Exit: it failed: 2 for wrong usage or a package that is not installed, 1 for anything else that can happen.
    """
    from comity.service.supervisor import leaves

    try:
        return work()
    except OptionsError as error:
        refuse(command, error)
    except ComityError as error:
        tell(f"comity {command}: {error}")
        raise typer.Exit(1) from None
    except ImportError as error:
        tell(f"comity {command}: {missing(error)}")
        raise typer.Exit(2) from None
    except BaseExceptionGroup as errors:
        tell(f"comity {command}: {leaves(errors)[0]}")
        raise typer.Exit(1) from None


def missing(error: ImportError) -> str:
    """Return what to install; an error that says something else is raised."""
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRAS:
        raise error
    return f"{name} is not installed: pip install 'comity[{_EXTRAS[name]}]'"
