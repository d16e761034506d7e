"""SqliteTable: results as rows of the table `results`, for questions in SQL."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from comity.bulk.output import Found, decode_found
from comity.errors import OptionsError, StoreError

SUFFIXES = (".sqlite", ".sqlite3", ".db")
_APPLICATION = 0x636D7479  # "cmty", in the file's header
_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    line INTEGER PRIMARY KEY, id, url TEXT, method TEXT, ok INTEGER NOT NULL, status INTEGER,
    body, elapsed REAL, attempts TEXT NOT NULL, error_type TEXT, error_message TEXT, input TEXT
)
"""
_INSERT = "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FOUND = """
SELECT json_object('line', line, 'ok', json(iif(ok, 'true', 'false')), 'method', method, 'status', status,
    'error', iif(error_type IS NULL, NULL, json_object('type', error_type)), 'attempts', json(attempts))
FROM results ORDER BY line
"""


class _Result(msgspec.Struct):
    line: int
    id: str | int
    ok: bool
    url: str | None = None
    method: str | None = None
    status: int | None = None
    body: msgspec.Raw = msgspec.Raw()
    elapsed: float = 0
    attempts: msgspec.Raw = msgspec.Raw(b"[]")
    error: dict[str, str] = {}
    input: str | None = None


_decode = msgspec.json.Decoder(_Result).decode


class SqliteTable:
    """A SQLite file; `line` is the table's key, so no line can have two results.

    `body` holds text as text, bytes as a blob and any other JSON value as JSON text.

    Args:
        path: the file; it is made when there is none.

    Raises:
        OptionsError: it is no output of ours.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        existed = path.exists() and path.stat().st_size > 0
        try:
            self._db = sqlite3.connect(path, timeout=1.0, isolation_level=None)
            if existed and self._db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                self._db.close()
                raise OptionsError("-o", str(path), "a new file, or the output of an earlier run", "it is another's")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(f"PRAGMA application_id={_APPLICATION}")
            self._db.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise OptionsError("-o", str(path), "a SQLite file that can be written", str(error)) from None

    def found(self) -> Iterator[Found]:
        """Yield the results of earlier runs; a transaction that a kill cut short is undone by SQLite."""
        yield from _results(self._db, self.path)

    def keep(self, wanted: Callable[[Found], bool]) -> None:
        """Delete the rows that are not wanted, in one transaction."""
        lines = [(found.line,) for found in self.found() if not wanted(found)]
        self._in_transaction("DELETE FROM results WHERE line = ?", lines)

    def write(self, results: Sequence[bytes]) -> None:
        """Insert results in one transaction.

        Raises:
            StoreError: the disk is full or fails; none of them is stored then.
        """
        self._in_transaction(_INSERT, [_columns(result) for result in results])

    def sort(self) -> None:
        """Do nothing: a table is in order of its key."""

    def sync(self) -> None:
        """Move what the log beside the file holds into the file, which puts it on the disk."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Put everything on the disk and close the file."""
        self._db.close()

    def _in_transaction(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            self._db.execute("BEGIN")
            self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(f"{self.path}: {error}") from error


def results_in(path: Path) -> Iterator[Found]:
    """Yield the results in a file without touching it.

    Raises:
        OptionsError: it is no output of ours.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            yield from _results(db, path)
    except sqlite3.Error as error:
        raise OptionsError("-o", str(path), "the output of an earlier run, or a new file", str(error)) from None


def _results(db: sqlite3.Connection, path: Path) -> Iterator[Found]:
    for (text,) in db.execute(_FOUND):
        try:
            yield decode_found(text)
        except msgspec.DecodeError:
            hint = "a row of its table is no result"
            raise OptionsError("-o", str(path), "the output of an earlier run, or a new file", hint) from None


def _columns(data: bytes) -> tuple[Any, ...]:
    result = _decode(data)
    return (
        result.line,
        # SQLite's integers have 64 bits.
        result.id if isinstance(result.id, str) or abs(result.id) < 1 << 63 else str(result.id),
        result.url,
        result.method,
        result.ok,
        result.status,
        _body(bytes(result.body)),
        result.elapsed,
        bytes(result.attempts).decode(),
        result.error.get("type"),
        result.error.get("message"),
        result.input,
    )


def _body(raw: bytes) -> str | bytes | None:
    if not raw or raw == b"null":
        return None
    if raw.startswith(b'"'):
        return str(msgspec.json.decode(raw))
    if raw.startswith(b'{"base64":'):
        value = msgspec.json.decode(raw)
        if set(value) == {"base64"} and isinstance(value["base64"], str):
            return base64.b64decode(value["base64"])
    return raw.decode()
