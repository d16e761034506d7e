"""Migrations: the schema changes by numbered files, in order, when somebody asks for it, and never by itself.

The number of the last file that was applied stands in the database's header (`user_version`), and is set in the same
transaction as the file's changes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from comity.errors import StoreError
from comity.store.schema import check_not_newer, check_not_older, numbered
from comity.store.sqlite.faults import translated
from comity.store.sqlite.lock import Lock

APPLICATION = 0x636D7473
"""What marks a file as a store: "cmts" in its header."""

OLDEST_SQLITE = (3, 37, 0)
"""STRICT tables; RETURNING came before."""


def migrate(path: Path | str, *, to: int | None = None) -> list[str]:
    """Bring a store's file to the newest schema, or make it; return the names of what was applied.

    Args:
        path: the file; no process may have it open.
        to: the number of the last migration to apply; None is the newest.

    Raises:
        StoreError: another process has it, it is no store, it is newer than this version, or it cannot be written.
    """
    path = Path(path)
    lock = Lock(path)
    try:
        _make(path)
        with translated(path), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            done = _version(db, path)
            # Only a new file takes another page size or log mode without being rewritten.
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            applied = []
            for number, (name, text) in enumerate(numbered("sqlite")[:to], 1):
                if number > done:
                    header = f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={number};"
                    db.executescript(f"BEGIN IMMEDIATE;\n{text}\n{header}\nCOMMIT;")
                    applied.append(name)
            return applied
    finally:
        lock.release()


def _make(path: Path) -> None:
    """Make the file, if it is not there, for its owner alone: what is delivered may hold secrets. Its log is made like it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", reason="denied") from error


def check_schema(db: sqlite3.Connection, path: Path) -> None:
    """See that a file has this version's schema.

    Raises:
        StoreError: it is older (it waits for `migrate`), newer, or no store.
    """
    check_not_older(str(path), _version(db, path), len(numbered("sqlite")))


def _version(db: sqlite3.Connection, path: Path) -> int:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(f"the store needs SQLite {needed}; this Python has {sqlite3.sqlite_version}", reason="schema")
    (application,), (version,) = (
        db.execute("PRAGMA application_id").fetchone(),
        db.execute("PRAGMA user_version").fetchone(),
    )
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION and (application or version or tables):
        raise StoreError(f"{path}: this database is no store of comity", reason="schema")
    check_not_newer(str(path), version, len(numbered("sqlite")))
    return int(version)
