"""Row: a delivery's columns that change, read, changed and written back inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from comity.store.records import Mode, State
from comity.store.sqlite.transaction import Transaction
from comity.store.transitions import Facts, Step

END, WAITING, READY, CLAIMED, SENDING = range(5)
"""The phases; what they mean stands in the schema."""


class Row(msgspec.Struct, gc=False):
    """One delivery."""

    n: int
    id: str
    lane: int
    mode: Mode
    priority: int
    max_attempts: int
    fence: int
    state: State
    phase: int
    rank: int
    enqueued_at: int
    due_at: int
    deadline: int | None
    idle_since: int
    ended_at: int | None
    attempts: int
    apart: int
    refusals: int
    refusals_in_a_row: int
    crashes: int
    cancelling: int
    lease: int | None
    status: int | None
    error: str | None
    reason: str | None

    @property
    def facts(self) -> Facts:
        """What decides about it."""
        return Facts(
            mode=self.mode,
            attempts=self.attempts - self.apart,
            max_attempts=self.max_attempts,
            crashes=self.crashes,
            cancelling=bool(self.cancelling),
            deadline=self.deadline,
        )

    def wait(self, due_at: int, now: int) -> None:
        """Let nobody hold it, and wait until `due_at`."""
        self.lease, self.due_at = None, due_at
        self.phase = READY if due_at <= now else WAITING

    def step(self, step: Step, now: int) -> None:
        """Take it where a decision says."""
        self.state, self.reason = step.state, step.reason
        if step.state == "retrying":
            self.wait(step.due_at, now)
        else:
            self.phase, self.lease, self.ended_at, self.cancelling = END, None, now, 0


_COLUMNS = ", ".join(Row.__struct_fields__)
_CHANGING = Row.__struct_fields__[7:]
_SAVE = f"UPDATE deliveries SET {', '.join(f'{name} = ?' for name in _CHANGING)}, version = version + 1 WHERE n = ?"  # noqa: S608 - names of ours


class Change:
    """Rows that are changed together; `with` it, they are written at the end.

    Args:
        transaction: where.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._rows: dict[int, tuple[Row, State, int]] = {}

    def find(self, where: str, *values: object) -> list[Row]:
        """Return the rows that an SQL condition of ours picks, to be changed."""
        found = self._transaction.db.execute(f"SELECT {_COLUMNS} FROM deliveries WHERE {where}", values)  # noqa: S608 - names of ours
        return [self._hold(Row(*columns)) for columns in found]

    def claimed(self, row: int, lease: int, fence: int) -> Row | None:
        """Return a row if this claim on it still holds."""
        held = self._rows.get(row)
        found = held[0] if held else next(iter(self.find("n = ?", row)), None)
        return found if found and found.lease == lease and found.fence == fence and found.phase >= CLAIMED else None

    def _hold(self, row: Row) -> Row:
        kept = self._rows.setdefault(row.n, (row, row.state, row.phase))
        return kept[0]

    def save(self) -> list[Row]:
        """Write what changed, its lanes' counts with it; return those rows."""
        changed = []
        for row, state, phase in self._rows.values():
            if (row.state, row.phase) != (state, phase) or row.phase != END:
                changed.append(row)
                self._count(row.lane, state, phase, -1)
                self._count(row.lane, row.state, row.phase, 1)
        self._transaction.db.executemany(_SAVE, _values(changed))
        self._rows.clear()
        return changed

    def _count(self, lane: int, state: State, phase: int, change: int) -> None:
        self._transaction.count(lane, state, change)
        if phase == READY:
            self._transaction.count(lane, "ready", change)
        elif phase >= CLAIMED:
            self._transaction.count(lane, "held", change)


def _values(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    return [cast("tuple[object, ...]", (*msgspec.structs.astuple(row)[7:], row.n)) for row in rows]
