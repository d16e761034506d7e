"""Tally: what a run has done so far, in numbers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from comity.bulk.failures import Failures

NS = 1_000_000_000
_SPAN = 10 * NS


@dataclass(slots=True)
class Tally:
    """Counts of a run; progress and summary read them.

    Attributes:
        lines: lines of the input, None while that is unknown.
        skipped: lines that are no rows, as far as it was read.
        before: rows that earlier runs finished.
        ok, failed: rows that this run finished.
        undone: rows that it had to leave.
        unknown: rows among the failed whose request may have been carried out.
        failures: why rows failed.
        sent: requests on the wire, repeats included.
        unsent: attempts of which nothing reached the wire.
        retried: repeats among them.
        refused: answers 429.
        in_flight: requests on the wire now.
    """

    lines: int | None = None
    skipped: int = 0
    before: int = 0
    ok: int = 0
    failed: int = 0
    undone: int = 0
    unknown: int = 0
    failures: Failures = field(default_factory=Failures)
    sent: int = 0
    unsent: int = 0
    retried: int = 0
    refused: int = 0
    in_flight: int = 0
    _ends: deque[tuple[int, int]] = field(default_factory=deque)

    @property
    def total(self) -> int | None:
        """Rows of the input, None while that is unknown."""
        return None if self.lines is None else self.lines - self.skipped

    @property
    def left(self) -> int | None:
        """Rows that have no result yet, None while the total is unknown."""
        return None if self.total is None else max(self.total - self.before - self.finished, 0)

    @property
    def finished(self) -> int:
        """Rows that this run brought to an end."""
        return self.ok + self.failed

    def rate(self, now: int) -> float:
        """Return the requests sent per second over the last 10 s; each call is a sample."""
        self._ends.append((now, self.sent))
        while len(self._ends) > 2 and now - self._ends[1][0] >= _SPAN:
            self._ends.popleft()
        (start, sent), (end, last) = self._ends[0], self._ends[-1]
        return (last - sent) * NS / (end - start) if end > start else 0.0
