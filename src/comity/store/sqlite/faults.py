"""Faults: what SQLite's errors mean for those who wanted something stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from comity.errors import StoreError, StoreReason

_REASONS: dict[int, tuple[StoreReason, str]] = {
    sqlite3.SQLITE_FULL: ("full", "the disk is full: nothing of this was stored; make room and try again"),
    sqlite3.SQLITE_READONLY: ("denied", "the file or its directory may not be written"),
    sqlite3.SQLITE_PERM: ("denied", "the file or its directory may not be written"),
    sqlite3.SQLITE_CANTOPEN: ("denied", "the file cannot be opened: see that its directory exists and may be written"),
    sqlite3.SQLITE_CORRUPT: ("corrupt", "the file is damaged: restore a copy"),
    sqlite3.SQLITE_NOTADB: ("corrupt", "the file is no SQLite database"),
    sqlite3.SQLITE_BUSY: ("busy", "another program keeps the file locked"),
    sqlite3.SQLITE_LOCKED: ("busy", "another program keeps the file locked"),
}


def fault(path: Path, error: sqlite3.Error) -> StoreError:
    """Return the StoreError that says what one of SQLite's errors means."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    reason, meaning = _REASONS.get(code & 0xFF, ("failed", ""))
    return StoreError(f"{path}: {error}" + (f" ({meaning})" if meaning else ""), reason=reason)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        raise fault(path, error) from error
