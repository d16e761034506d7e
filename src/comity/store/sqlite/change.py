"""Change: deliveries that are read, changed and written back inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from comity.store.held import Held
from comity.store.row import FIXED, Row
from comity.store.sqlite.transaction import Transaction

_COLUMNS = ", ".join(Row.__struct_fields__)
_CHANGING = Row.__struct_fields__[FIXED:]
_SAVE = f"UPDATE deliveries SET {', '.join(f'{name} = ?' for name in _CHANGING)}, version = version + 1 WHERE n = ?"  # noqa: S608 - names of ours
_END = """
UPDATE attempts SET ended_at = ?, sent = ?, sent_at = ?, answered_at = ?, status = ?, error = ?, retry_after = ?,
    timings = ?, decision = ? WHERE n = ? AND number = ?
"""
_ANSWER = "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)"


class Change(Held):
    """Rows that are changed together, and written by `save`.

    Args:
        transaction: where.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._transaction = transaction

    def find(self, where: str, *values: object) -> list[Row]:
        """Return the rows that an SQL condition of ours picks, to be changed."""
        found = self._transaction.db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE {where}", values)  # noqa: S608 - names of ours
        return [self.hold(Row(*columns)) for columns in found]

    def claimed(self, row: int, lease: int, fence: int) -> Row | None:
        """Return a row if this claim on it still holds."""
        found = self.held(row) or next(iter(self.find("n = ?", row)), None)
        return found if found and found.holds(lease, fence) else None

    def save(self) -> list[Row]:
        """Write what changed; return those rows."""
        db, now = self._transaction.db, self._transaction.now
        changed = self.changed()
        db.executemany(_SAVE, _values(changed))
        db.executemany(_END, [(now, *values, row.n, row.attempts) for row, values in self.ends])
        db.executemany(_ANSWER, self.answers)
        self.ends.clear()
        self.answers.clear()
        return changed


def _values(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    return [cast("tuple[object, ...]", (*msgspec.structs.astuple(row)[FIXED:], row.n)) for row in rows]
