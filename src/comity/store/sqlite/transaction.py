"""Transaction: what all writes of one commit share, and what is summed up once for all of them."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from typing import NamedTuple, TypeVar

from comity.store.ids import Ids
from comity.store.records import EventKind

T = TypeVar("T")

Results = list[T | Exception]
"""What came of several calls of one kind, in order; for a call that was refused the error that its caller gets."""

COUNTS = ("pending", "retrying", "completed", "failed", "cancelled", "ready", "held")
_PLACE = {name: place for place, name in enumerate(COUNTS)}
_COUNT = f"UPDATE lanes SET {', '.join(f'{name} = {name} + ?' for name in COUNTS)} WHERE id = ?"  # noqa: S608 - names of ours
_LIVE = "UPDATE origins SET live = live + ? WHERE id = ?"
_EVENT = "INSERT INTO events (at, kind, lane, origin, delivery, attempt, status, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_MINUTE_NS = 60_000_000_000
_MINUTE = """
INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (began_at, lane) DO UPDATE SET
    attempts = attempts + excluded.attempts, ok = ok + excluded.ok, refused = refused + excluded.refused,
    failed = failed + excluded.failed, answered = answered + excluded.answered,
    time_sum = time_sum + excluded.time_sum,
    time_min = min(coalesce(time_min, excluded.time_min), coalesce(excluded.time_min, time_min)),
    time_max = max(coalesce(time_max, excluded.time_max), coalesce(excluded.time_max, time_max))
"""


class LaneRef(NamedTuple):
    """A lane by number and name, and its origin."""

    id: int
    key: str
    origin: int
    origin_name: str


class Known:
    """What never changes once it is committed: numbers of lanes. Cleared whenever something is rolled back."""

    def __init__(self) -> None:
        self.by_key: dict[str, LaneRef] = {}
        self.by_id: dict[int, LaneRef] = {}

    def add(self, lane: LaneRef) -> LaneRef:
        """Remember a lane."""
        self.by_key[lane.key] = self.by_id[lane.id] = lane
        return lane

    def clear(self) -> None:
        """Forget all of them."""
        self.by_key.clear()
        self.by_id.clear()


class Transaction:
    """One commit.

    Args:
        db: the writer's connection, inside BEGIN.
        now: ns since the epoch; one moment for all that is committed together.
        ageing: ns.
        ids: where new ids come from.
        known: the lanes that were seen.
    """

    def __init__(self, db: sqlite3.Connection, *, now: int, ageing: int, ids: Ids, known: Known) -> None:
        self.db, self.now, self.ageing, self.ids, self._known = db, now, ageing, ids, known
        self._counts: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
        self._events: list[tuple[object, ...]] = []
        self._minutes: dict[int, list[int | None]] = {}

    def count(self, lane: int, name: str, change: int) -> None:
        """Change one of a lane's counts."""
        self._counts[lane][_PLACE[name]] += change

    def event(
        self,
        kind: EventKind,
        *,
        lane: int | None = None,
        origin: int | None = None,
        delivery: str | None = None,
        attempt: int | None = None,
        status: int | None = None,
        note: str | None = None,
    ) -> None:
        """Note what happened."""
        self._events.append((self.now, kind, lane, origin, delivery, attempt, status, note))

    def attempt_ended(self, lane: int, *, ok: bool, refused: bool, took: int | None) -> None:
        """Roll up an attempt; `took` is ns from its first byte to its answer, None when there was none."""
        sums = self._minutes.setdefault(lane, [0, 0, 0, 0, 0, 0, None, None])
        ended = (1, int(ok), int(refused), int(not (ok or refused)), int(took is not None), took or 0)
        for place, value in enumerate(ended):
            sums[place] = (sums[place] or 0) + value
        if took is not None:
            least, most = sums[6], sums[7]
            sums[6] = took if least is None else min(least, took)
            sums[7] = took if most is None else max(most, took)

    def lane(self, key: str) -> LaneRef | None:
        """Return the lane of this name, or None."""
        return self._known.by_key.get(key) or self._find("key", key)

    def new_lane(self, key: str, origin: str) -> LaneRef:
        """Return the lane of this name, made when there is none."""
        if (found := self.lane(key)) is None:
            self.db.execute("INSERT INTO origins (name) VALUES (?) ON CONFLICT DO NOTHING", (origin,))
            self.db.execute("INSERT INTO lanes (key, origin) SELECT ?, id FROM origins WHERE name = ?", (key, origin))
            found = self._find("key", key)
            assert found is not None
        return found

    def lane_of(self, number: int) -> LaneRef:
        """Return the lane of this number."""
        found = self._known.by_id.get(number) or self._find("id", number)
        assert found is not None
        return found

    def _find(self, column: str, value: str | int) -> LaneRef | None:
        row = self.db.execute(
            f"SELECT l.id, l.key, o.id, o.name FROM lanes l JOIN origins o ON o.id = l.origin WHERE l.{column} = ?",  # noqa: S608 - one of two words of ours
            (value,),
        ).fetchone()
        return None if row is None else self._known.add(LaneRef(*row))

    def write_counts(self) -> None:
        """Write the counts so far, for whoever reads them inside this transaction."""
        changed = [(*counts, lane) for lane, counts in self._counts.items() if any(counts)]
        self._counts.clear()
        self.db.executemany(_COUNT, changed)
        live: defaultdict[int, int] = defaultdict(int)
        for pending, retrying, *_, lane in changed:
            live[self.lane_of(lane).origin] += pending + retrying
        self.db.executemany(_LIVE, [(change, origin) for origin, change in live.items() if change])

    def write_sums(self) -> bool:
        """Write all that was summed up; return whether there were events."""
        self.write_counts()
        began = self.now - self.now % _MINUTE_NS
        self.db.executemany(_MINUTE, [(began, lane, *sums) for lane, sums in self._minutes.items()])
        self.db.executemany(_EVENT, self._events)
        return bool(self._events)
