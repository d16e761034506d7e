"""Transaction: what all writes of one commit share, and what is summed up once for all of them."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

from comity.store.ids import Ids
from comity.store.known import Known, LaneRef
from comity.store.sums import COUNTS, FAILED, OK, STATES, Sums

_COUNT = f"""
UPDATE lanes SET {", ".join(f"{name} = {name} + ?{place}" for place, name in enumerate(COUNTS, 1))},
    stuck = ordered AND held + ?7 > 0,
    emptied_at = CASE WHEN {" + ".join(f"{name} + ?{place}" for place, name in enumerate(STATES, 1))} = 0 THEN ?8 END
WHERE id = ?9
"""  # noqa: S608 - names of ours
_MAKE_LANE = "INSERT INTO lanes (key, ordered, emptied_at, origin) SELECT ?, ?, ?, id FROM origins WHERE name = ?"
_LIVE = "UPDATE origins SET live = live + ? WHERE id = ?"
_EVENT = "INSERT INTO events (at, kind, lane, origin, delivery, attempt, status, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_MINUTE = """
INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (began_at, lane) DO UPDATE SET
    attempts = attempts + excluded.attempts, ok = ok + excluded.ok, refused = refused + excluded.refused,
    failed = failed + excluded.failed, answered = answered + excluded.answered,
    time_sum = time_sum + excluded.time_sum,
    time_min = min(coalesce(time_min, excluded.time_min), coalesce(excluded.time_min, time_min)),
    time_max = max(coalesce(time_max, excluded.time_max), coalesce(excluded.time_max, time_max))
"""
_SUCCEEDED = "UPDATE lanes SET failing_since = NULL WHERE id = ? AND failing_since IS NOT NULL"
_FAILED = "UPDATE lanes SET failing_since = coalesce(failing_since, ?1), failed_at = ?1 WHERE id = ?2"


class Transaction(Sums):
    """One commit.

    Args:
        db: the writer's connection, inside BEGIN.
        now: ns since the epoch; one moment for all that is committed together.
        ageing: ns.
        ids: where new ids come from.
        known: the lanes that were seen.
    """

    def __init__(self, db: sqlite3.Connection, *, now: int, ageing: int, ids: Ids, known: Known) -> None:
        super().__init__(now, ageing)
        self.db, self.ids, self._known = db, ids, known

    def lane(self, key: str) -> LaneRef | None:
        """Return the lane of this name, or None."""
        return self._known.by_key.get(key) or self._find("key", key)

    def new_lane(self, key: str, origin: str, *, ordered: bool) -> LaneRef:
        """Return the lane of this name, made when there is none; then it may be an ordered one."""
        if (found := self.lane(key)) is None:
            self.db.execute("INSERT INTO origins (name) VALUES (?) ON CONFLICT DO NOTHING", (origin,))
            self.db.execute(_MAKE_LANE, (key, ordered, self.now, origin))
            found = self._find("key", key)
            assert found is not None
        return found

    def forget_lane(self, key: str) -> None:
        """Forget a lane that was deleted or changed."""
        self._known.forget(key)

    def lane_of(self, number: int) -> LaneRef:
        """Return the lane of this number."""
        found = self._known.by_id.get(number) or self._find("id", number)
        assert found is not None
        return found

    def _find(self, column: str, value: str | int) -> LaneRef | None:
        row = self.db.execute(
            f"SELECT l.id, l.key, o.id, o.name, l.ordered FROM lanes l JOIN origins o ON o.id = l.origin WHERE l.{column} = ?",  # noqa: S608 - one of two words of ours
            (value,),
        ).fetchone()
        return None if row is None else self._known.add(LaneRef(*row))

    def write_counts(self) -> None:
        """Write the counts so far, for whoever reads them inside this transaction."""
        changed = self.take_counts()
        self.db.executemany(_COUNT, [(*counts, self.now, lane) for lane, counts in changed])
        live: defaultdict[int, int] = defaultdict(int)
        for lane, (pending, retrying, *_) in changed:
            live[self.lane_of(lane).origin] += pending + retrying
        self.db.executemany(_LIVE, [(change, origin) for origin, change in live.items() if change])

    def write_sums(self) -> bool:
        """Write all that was summed up; return whether there were events."""
        self.write_counts()
        self.db.executemany(_MINUTE, [(self.minute, lane, *sums) for lane, sums in self.minutes.items()])
        self.db.executemany(_SUCCEEDED, [(lane,) for lane, sums in self.minutes.items() if sums[OK]])
        failing = [(self.now, lane) for lane, sums in self.minutes.items() if sums[FAILED] and not sums[OK]]
        self.db.executemany(_FAILED, failing)
        self.db.executemany(_EVENT, self.events)
        return bool(self.events)
