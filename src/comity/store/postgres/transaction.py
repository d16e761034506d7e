"""Transaction: what all writes of one commit share, and the order in which they lock what others want too.

New origins and lanes come first, each in order of their names; then deliveries, then schedules, each in order of their ids;
then the one row of `store`; then lanes and origins that are there, minutes and events, which are changed only by who has that
row. So no two transactions wait for each other, whether of two processes or of one. As the row is held until the commit, events
are numbered in the order of the commits, and without a gap. Calls that must see everything at rest have the store to themselves
(see `Committer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from comity.store.ids import Ids
from comity.store.known import Known, LaneRef, Way
from comity.store.sums import COUNTS, STATES, Sums

_LANES = "SELECT l.id, l.key, o.id, o.name, l.ordered FROM lanes l JOIN origins o ON o.id = l.origin WHERE "
_MAKE_ORIGINS = "INSERT INTO origins (name) SELECT DISTINCT unnest($1::text[]) ORDER BY 1 ON CONFLICT DO NOTHING"
_MAKE_LANES = """
INSERT INTO lanes (key, origin, ordered, emptied_at)
SELECT w.key, o.id, w.ordered, $4 FROM unnest($1::text[], $2::text[], $3::boolean[]) w (key, origin, ordered)
JOIN origins o ON o.name = w.origin ORDER BY w.key ON CONFLICT DO NOTHING
"""
_COUNT = f"""
WITH c AS (SELECT * FROM unnest($1::bigint[], {", ".join(f"${place}::bigint[]" for place in range(2, 9))}) c (lane, {", ".join(COUNTS)})),
counted AS (
    UPDATE lanes l SET {", ".join(f"{name} = l.{name} + c.{name}" for name in COUNTS)},
        waiting = l.ready + c.ready > 0 AND NOT (l.ordered AND l.held + c.held > 0),
        emptied_at = CASE WHEN {" + ".join(f"l.{name} + c.{name}" for name in STATES)} = 0 THEN $9::bigint END
    FROM c WHERE l.id = c.lane
)
UPDATE origins o SET live = o.live + x.live, wanted = o.live + x.live > 0 FROM (
    SELECT l.origin, sum(c.pending + c.retrying) AS live FROM c JOIN lanes l ON l.id = c.lane
    GROUP BY l.origin HAVING sum(c.pending + c.retrying) <> 0
) x WHERE o.id = x.origin
"""  # noqa: S608 - names of ours
_MINUTE = """
WITH v AS (
    SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
        $9::bigint[], $10::bigint[])
    v (lane, attempts, ok, refused, failed, answered, time_sum, time_min, time_max)
), told AS (
    UPDATE lanes l SET failing_since = CASE WHEN v.ok = 0 THEN coalesce(l.failing_since, $11) END,
        failed_at = CASE WHEN v.ok = 0 THEN $11 ELSE l.failed_at END
    FROM v WHERE l.id = v.lane AND CASE WHEN v.ok = 0 THEN v.failed > 0 ELSE l.failing_since IS NOT NULL END
)
INSERT INTO minutes AS m SELECT $1, v.* FROM v
ON CONFLICT (began_at, lane) DO UPDATE SET
    attempts = m.attempts + excluded.attempts, ok = m.ok + excluded.ok, refused = m.refused + excluded.refused,
    failed = m.failed + excluded.failed, answered = m.answered + excluded.answered,
    time_sum = m.time_sum + excluded.time_sum,
    time_min = least(m.time_min, excluded.time_min), time_max = greatest(m.time_max, excluded.time_max)
"""
_EVENT = """
INSERT INTO events SELECT $1 + e.place, e.at, e.kind, e.lane, e.origin, e.delivery, e.attempt, e.status, e.note
FROM unnest($2::new_event[]) WITH ORDINALITY e (at, kind, lane, origin, delivery, attempt, status, note, place)
"""


class Transaction(Sums):
    """One commit.

    Args:
        db: the writer's connection, inside BEGIN.
        now: ns since the epoch; one moment for all that is committed together.
        ageing: ns.
        ids: where new ids come from.
        known: the lanes that were seen.
    """

    def __init__(self, db: Any, *, now: int, ageing: int, ids: Ids, known: Known) -> None:
        super().__init__(now, ageing)
        self.db, self.ids, self._known = db, ids, known
        self._locked = False

    async def lanes(self, keys: Iterable[str]) -> dict[str, LaneRef]:
        """Return those lanes of these names that there are."""
        wanted = set(keys)
        if unknown := wanted - self._known.by_key.keys():
            for row in await self.db.fetch(f"{_LANES} l.key = ANY($1::text[])", list(unknown)):
                self._known.add(LaneRef(*row))
        return {key: self._known.by_key[key] for key in wanted if key in self._known.by_key}

    async def make_lanes(self, lanes: dict[str, Way]) -> None:
        """Make lanes, by name; those that another process made meanwhile stay as they are."""
        origins, ordered = columns(list(lanes.values()))
        await self.db.execute(_MAKE_ORIGINS, origins)
        await self.db.execute(_MAKE_LANES, list(lanes), origins, ordered, self.now)

    async def lanes_of(self, numbers: Iterable[int]) -> dict[int, LaneRef]:
        """Return the lanes of these numbers."""
        wanted = set(numbers)
        if unknown := wanted - self._known.by_id.keys():
            for row in await self.db.fetch(f"{_LANES} l.id = ANY($1::bigint[])", list(unknown)):
                self._known.add(LaneRef(*row))
        return {number: self._known.by_id[number] for number in wanted}

    async def forget_lanes(self, keys: Iterable[str]) -> None:
        """Forget lanes that were deleted or changed, and let other processes forget what they remember of lanes."""
        for key in keys:
            self._known.forget(key)
        await self.db.execute("UPDATE store SET generation = generation + 1")
        self._locked = True

    async def lock(self) -> None:
        """Be the next to commit: from now on lanes and origins may be changed, and no delivery be waited for."""
        if not self._locked:
            await self.db.execute("SELECT FROM store FOR UPDATE")
            self._locked = True

    async def write_counts(self) -> None:
        """Write the counts so far, for whoever reads them inside this transaction."""
        await self.lock()
        await self._write_changes()

    async def _write_changes(self) -> None:
        if changed := self.take_counts():
            await self.lock()
            counts = columns([counts for _, counts in changed])
            await self.db.execute(_COUNT, [lane for lane, _ in changed], *counts, self.now)

    async def write_sums(self) -> int | None:
        """Write all that was summed up; return the number of the last event, None when there was none."""
        if not self.events:
            await self._write_changes()
            return None
        last: int = await self.db.fetchval("UPDATE store SET seq = seq + $1 RETURNING seq", len(self.events))
        self._locked = True
        await self._write_changes()
        if self.minutes:
            sums = columns(list(self.minutes.values()))
            await self.db.execute(_MINUTE, self.minute, list(self.minutes), *sums, self.now)
        await self.db.execute(_EVENT, last - len(self.events), self.events)
        return last


def columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return rows, at least one, as columns."""
    return [list(column) for column in zip(*rows, strict=True)]
