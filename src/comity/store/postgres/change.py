"""Change: deliveries that are read, locked, changed and written back inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from comity.store.held import Held
from comity.store.postgres.transaction import Transaction
from comity.store.row import FIXED, Row

_CHANGING = Row.__struct_fields__[FIXED:]
_READ = {"id": "id::text", "phase": "CASE WHEN began_at IS NULL THEN phase ELSE 4 END"}
_FIND = f"SELECT {', '.join(_READ.get(name, name) for name in Row.__struct_fields__[1:])} FROM deliveries WHERE "  # noqa: S608 - names of ours
_SET = {"phase": "least(v.phase, 3)"}
# Both see the deliveries as they were before.
_SAVE = f"""
WITH ended AS (
    INSERT INTO attempts (id, number, origin, started_at, waited, cost, ended_at, sent, sent_at, answered_at, status, error,
        retry_after, timings, decision)
    SELECT d.id, d.attempts, l.origin, d.began_at, d.began_at - d.idle_since, d.cost, $1, e.sent, e.sent_at,
        e.answered_at, e.status, e.error, e.retry_after, e.timings, e.decision
    FROM unnest($2::ended_attempt[]) e JOIN deliveries d ON d.id = e.id JOIN lanes l ON l.id = d.lane
)
UPDATE deliveries d SET {", ".join(f"{name} = {_SET.get(name, f'v.{name}')}" for name in _CHANGING)}, version = d.version + 1,
    began_at = CASE WHEN v.phase = 4 THEN d.began_at END, cost = CASE WHEN v.phase = 4 THEN d.cost END
FROM unnest($3::changed_delivery[]) v WHERE d.id = v.id
"""  # noqa: S608 - names of ours
_ANSWER = """
INSERT INTO answers (id, status, truncated, size, sha256, headers, body) SELECT v.* FROM unnest($1::new_answer[]) v
"""


class Change(Held):
    """Rows that are changed together, and written by `save`.

    Args:
        transaction: where.
    """

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._transaction = transaction

    async def find(self, where: str, *values: object) -> list[Row]:
        """Return the rows that an SQL condition of ours picks, locked, to be changed."""
        found = await self._transaction.db.fetch(f"{_FIND} {where}", *values)
        return [self.hold(Row(row[0], *row)) for row in found]

    async def of(self, ids: Sequence[str]) -> None:
        """Hold those rows of these ids that there are; in order of their ids, as others do."""
        await self.find("id = ANY($1::uuid[]) ORDER BY id FOR UPDATE", ids)

    def claimed(self, number: str, lease: int, fence: int) -> Row | None:
        """Return one of the rows that are held, if this claim on it still holds."""
        found = self.held(number)
        return found if found and found.holds(lease, fence) else None

    async def save(self) -> list[Row]:
        """Write what changed; return those rows."""
        db, now = self._transaction.db, self._transaction.now
        if changed := self.changed():
            values = [(row.n, *msgspec.structs.astuple(row)[FIXED:]) for row in changed]
            await db.execute(_SAVE, now, [(row.n, *end) for row, end in self.ends], values)
            self.ends.clear()
        if self.answers:
            await db.execute(_ANSWER, self.answers)
            self.answers.clear()
        return changed
