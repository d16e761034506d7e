"""Sums: what all writes of one commit share, whatever the database: counts, events and minutes, summed up once for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from comity.store.records import EventKind

T = TypeVar("T")

Results = list[T | Exception]
"""What came of several calls of one kind, in order; for a call that was refused the error that its caller gets."""

STATES = ("pending", "retrying", "completed", "failed", "cancelled")
COUNTS = (*STATES, "ready", "held")
_PLACE = {name: place for place, name in enumerate(COUNTS)}
OK, FAILED = 1, 3
"""Where these stand in a minute's sums."""

_MINUTE_NS = 60_000_000_000


class Sums:
    """What one commit sums up.

    Args:
        now: ns since the epoch; one moment for all that is committed together.
        ageing: ns.

    Attributes:
        events: rows in the order of what happened: at, kind, lane, origin, delivery, attempt, status, note.
        minutes: lane -> what its attempts came to, in the order of the columns of `Minute`.
    """

    def __init__(self, now: int, ageing: int) -> None:
        self.now, self.ageing = now, ageing
        self._counts: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
        self.events: list[tuple[object, ...]] = []
        self.minutes: dict[int, list[int | None]] = {}

    @property
    def minute(self) -> int:
        """When the minute began that it is."""
        return self.now - self.now % _MINUTE_NS

    def take_counts(self) -> list[tuple[int, list[int]]]:
        """Return the changes of each lane's counts since the last time, in order of COUNTS.

        A lane whose changes come to nothing is among them: who is next in it may be another one all the same.
        """
        changed = list(self._counts.items())
        self._counts.clear()
        return changed

    def untold(self, lanes: Iterable[tuple[int, str, int]], last: tuple[object, object]) -> list[tuple[int, str, int]]:
        """Return those lanes (number, name, origin) that no event that stays will name, nor their origins.

        Args:
            lanes: which.
            last: lane and origin of the last event before this commit: it is never deleted.
        """
        told = {last[0], *(event[2] for event in self.events)}
        origins = {last[1], *(event[3] for event in self.events)}
        return [(lane, key, origin) for lane, key, origin in lanes if lane not in told and origin not in origins]

    def live(self) -> int:
        """Return how many more are pending or retrying by what was counted since the last time."""
        return sum(counts[0] + counts[1] for counts in self._counts.values())

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
        self.events.append((self.now, kind, lane, origin, delivery, attempt, status, note))

    def attempt_ended(self, lane: int, *, ok: bool, refused: bool, took: int | None) -> None:
        """Roll up an attempt; `took` is ns from its first byte to its answer, None when there was none."""
        sums = self.minutes.setdefault(lane, [0, 0, 0, 0, 0, 0, None, None])
        ended = (1, int(ok), int(refused), int(not (ok or refused)), int(took is not None), took or 0)
        for place, value in enumerate(ended):
            sums[place] = (sums[place] or 0) + value
        if took is not None:
            least, most = sums[6], sums[7]
            sums[6] = took if least is None else min(least, took)
            sums[7] = took if most is None else max(most, took)
