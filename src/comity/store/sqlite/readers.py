"""Readers: how far whoever reads the events has dealt with them."""

from __future__ import annotations

import sqlite3

from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results

_MARK = "INSERT INTO readers VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET seen = max(seen, excluded.seen)"


def mark(transaction: Transaction, calls: list[tuple[str, int]]) -> Results[None]:
    """Write down how far each call's reader is; nobody goes back."""
    transaction.db.executemany(_MARK, calls)
    return [None] * len(calls)


def marked(db: sqlite3.Connection, reader: str) -> int:
    """Return how far a reader is, 0 when nothing is written down."""
    row = db.execute("SELECT seen FROM readers WHERE name = ?", (reader,)).fetchone()
    return 0 if row is None else int(row[0])
