"""Readers: how far whoever reads the events has dealt with them."""

from __future__ import annotations

from typing import Any

from comity.store.postgres.transaction import Transaction
from comity.store.sums import Results

_MARK = """
INSERT INTO readers AS r VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET seen = greatest(r.seen, excluded.seen)
"""


async def mark(transaction: Transaction, calls: list[tuple[str, int]]) -> Results[None]:
    """Write down how far each call's reader is; nobody goes back."""
    for reader, seen in sorted(calls):  # in this order, as others do
        await transaction.db.execute(_MARK, reader, seen)
    return [None] * len(calls)


async def marked(db: Any, reader: str) -> int:
    """Return how far a reader is, 0 when nothing is written down."""
    return await db.fetchval("SELECT seen FROM readers WHERE name = $1", reader) or 0
