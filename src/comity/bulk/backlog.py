"""Backlog: rows that were read and wait for a worker, by limiter, bounded in number and size.

A host that is slow fills its own lane while the others go on; only when the whole backlog is full of one lane's rows does
reading stop. Hosts that share their limits share a lane, and a group of a host's requests with limits of its own has one. A worker takes the most urgent row of its lane.
"""

from __future__ import annotations

import heapq
import time
from datetime import datetime

from comity.bulk.rows import Row

MAX_ROWS = 4096
MAX_BYTES = 16 * 1024 * 1024


class Lane:
    """The rows under one limiter.

    Args:
        name: of the limiter.
        width: how many rows may be under way at once; those that wait for another attempt do not count.

    Attributes:
        workers: tasks that work on it.
        parked: those of them whose row waits for another attempt.
        blocked_until: the time before which the server wants no request, or None.
        blocked_ns: the same on the monotonic clock, ns, 0 for none.
    """

    __slots__ = ("_heap", "blocked_ns", "blocked_until", "name", "parked", "width", "workers")

    def __init__(self, name: str, width: int) -> None:
        self.name, self.width = name, width
        self.workers = self.parked = self.blocked_ns = 0
        self.blocked_until: datetime | None = None
        self._heap: list[tuple[int, int, Row]] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def blocked(self) -> bool:
        """Whether the time that the server named is still to come."""
        return self.blocked_ns > 0 and time.monotonic_ns() < self.blocked_ns

    @property
    def wants_worker(self) -> bool:
        """Whether a row waits that one more worker may take."""
        return bool(self._heap) and self.workers - self.parked < self.width and self.workers < 8 * self.width

    def push(self, row: Row) -> None:
        """Add a row."""
        heapq.heappush(self._heap, (row.priority, row.line, row))

    def pop(self) -> Row:
        """Take the most urgent row, the first of its priority."""
        return heapq.heappop(self._heap)[2]

    def clear(self) -> list[Row]:
        """Take all rows."""
        rows, self._heap = [entry[2] for entry in self._heap], []
        return rows


class Backlog:
    """All lanes, and the room in them."""

    def __init__(self, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> None:
        self.max_rows, self.max_bytes = max_rows, max_bytes
        self.rows = self.bytes = 0
        self.lanes: dict[str, Lane] = {}

    @property
    def full(self) -> bool:
        """Whether reading has to stop."""
        return self.rows >= self.max_rows or self.bytes >= self.max_bytes

    def push(self, lane: Lane, row: Row) -> None:
        """Add a row to its lane."""
        lane.push(row)
        self.rows += 1
        self.bytes += row.size

    def pop(self, lane: Lane) -> Row:
        """Take a lane's next row."""
        row = lane.pop()
        self.rows -= 1
        self.bytes -= row.size
        return row

    def drop(self, lane: Lane) -> int:
        """Forget a lane's rows; return how many there were."""
        rows = lane.clear()
        self.rows -= len(rows)
        self.bytes -= sum(row.size for row in rows)
        return len(rows)

    def sweep(self) -> None:
        """Forget lanes that hold nothing, when there are many."""
        if len(self.lanes) > self.max_rows:
            self.lanes = {
                name: lane for name, lane in self.lanes.items() if len(lane) or lane.workers or lane.blocked_until
            }
