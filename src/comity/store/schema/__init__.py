"""Schema: a directory of numbered files for each database, and what is said of a store that has another number."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from comity.errors import StoreError


@cache
def numbered(database: Literal["sqlite", "postgres"]) -> tuple[tuple[str, str], ...]:
    """Return name and text of every file of a database; the first is number 1. One that was released is never edited."""
    folder = files("comity.store.schema") / database
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    return tuple((name.removesuffix(".sql"), (folder / name).read_text(encoding="utf-8")) for name in found)


def check_not_older(where: str, done: int, newest: int) -> None:
    """See that a store needs no migration.

    Args:
        where: the store.
        done: the number of the last file that was applied to it.
        newest: the number of this version's last one.

    Raises:
        StoreError: it does.
    """
    if done < newest:
        what = "is empty" if done == 0 else f"has schema {done} and this version needs {newest}"
        raise StoreError(f"{where}: the store {what}: migrate it first", reason="schema")


def check_not_newer(where: str, done: int, newest: int) -> None:
    """See that a store is none of a version after this one; the arguments are those of `check_not_older`.

    Raises:
        StoreError: it is.
    """
    if done > newest:
        said = f"{where}: the store has schema {done}, newer than this version's {newest}: use the newer comity"
        raise StoreError(said, reason="schema")
