"""Peers: the other libraries, looked up when a benchmark runs, so that a missing one costs only its own rows."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

DISTRIBUTIONS = (
    "aiohttp", "uvloop", "aiolimiter", "pyrate-limiter", "httpx", "httpx-retries", "httpx2", "asyncpg", "procrastinate", "saq",
    "psycopg",
)  # fmt: skip


class Absent(Exception):
    """A peer cannot be measured here; the message says why in a few words."""


def need(module: str) -> Any:
    """Return the imported module.

    Raises:
        Absent: it is not installed.
    """
    found = find(module)
    if found is None:
        raise Absent("not installed")
    return found


def find(module: str) -> Any | None:
    """Return the imported module, or None when it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        return None


def version(distribution: str) -> str:
    """Return the installed version, or "not installed"."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
