"""Held: deliveries that are changed together inside one transaction, and what is counted and told of it, whatever the database."""

from __future__ import annotations

import random
from typing import NamedTuple

from comity.store.records import Answer, Ended, State
from comity.store.row import CLAIMED, END, LOST, READY, SENDING, Row
from comity.store.sums import Sums
from comity.store.transitions import Step

_LOST = Ended(then="retry", sent="maybe", error=LOST)
_UNSENT = Ended(then="retry", sent="no")


class AttemptEnd(NamedTuple):
    """How a row's attempt ended; `values` are the columns from `sent` to `decision`."""

    row: Row
    values: tuple[object, ...]


class Held:
    """Rows that are changed together; a database's own part reads and writes them.

    Args:
        sums: where their lanes' counts are summed up.

    Attributes:
        ends: the attempts of theirs that ended.
        answers: of the deliveries that ended with one, in the order of the table's columns.
    """

    def __init__(self, sums: Sums) -> None:
        self._sums = sums
        self._rows: dict[int | str, tuple[Row, State, int]] = {}
        self.ends: list[AttemptEnd] = []
        self.answers: list[tuple[object, ...]] = []

    def hold(self, row: Row) -> Row:
        """Have a row among them; return the one that is held already, if there is one."""
        return self._rows.setdefault(row.n, (row, row.state, row.phase))[0]

    def held(self, number: int | str) -> Row | None:
        """Return a row that is among them."""
        found = self._rows.get(number)
        return found and found[0]

    def all(self) -> list[Row]:
        """Return all of them."""
        return [row for row, _, _ in self._rows.values()]

    def finish(self, row: Row, ended: Ended) -> Step:
        """End a row's attempt; return what follows."""
        step = row.finish(ended, self._sums.now)
        self._end_attempt(row, row.state, ended)
        self._count_attempt(row, ended)
        if step.state != "retrying" and (answer := ended.answer) is not None:
            self.answers.append(_columns_of(row.n, answer))
        return step

    def lose(self, row: Row, jitter: int) -> None:
        """End a row's attempt, whose worker was lost; sent again, it is due within `jitter` ns."""
        now = self._sums.now
        row.lose(now, now + random.randint(0, jitter))
        self._end_attempt(row, "unknown", _LOST)
        self._count_attempt(row, _LOST)

    def let_go(self, row: Row, due_at: int) -> None:
        """Take a row, of which nothing was sent, from its worker."""
        now = self._sums.now
        if row.phase != SENDING:
            row.wait(due_at, now)
            return
        self._end_attempt(row, "unsent", _UNSENT)
        row.unsend(due_at, now)
        if row.state == "cancelled":
            self._sums.event("cancelled", lane=row.lane, delivery=row.id, attempt=row.attempts)

    def cancel(self, row: Row) -> None:
        """Cancel a row at once, or after the attempt under way."""
        kind = row.cancel(self._sums.now)
        if kind is not None:
            attempt = row.attempts if kind == "cancelling" else None
            self._sums.event(kind, lane=row.lane, delivery=row.id, attempt=attempt)

    def expire(self, row: Row) -> None:
        """Fail a row whose deadline passed."""
        row.step(Step("failed", reason="deadline"), self._sums.now)
        self._sums.event("failed", lane=row.lane, delivery=row.id, note=row.reason)

    def replay(self, row: Row) -> None:
        """Let a row begin anew."""
        row.replay(self._sums.now, self._sums.ageing)
        self._sums.event("replayed", lane=row.lane, delivery=row.id)

    def changed(self) -> list[Row]:
        """Return those that changed, counted in their lanes; from now on none is held."""
        changed = []
        for row, state, phase in self._rows.values():
            if (row.state, row.phase) != (state, phase) or row.phase != END:
                changed.append(row)
                self._count(row.lane, state, phase, -1)
                self._count(row.lane, row.state, row.phase, 1)
        self._rows.clear()
        return changed

    def _count(self, lane: int, state: State, phase: int, change: int) -> None:
        self._sums.count(lane, state, change)
        if phase == READY:
            self._sums.count(lane, "ready", change)
        elif phase >= CLAIMED:
            self._sums.count(lane, "held", change)

    def _end_attempt(self, row: Row, decision: str, ended: Ended) -> None:
        now = self._sums.now
        sent_at, answered_at = (None if ago is None else now - ago for ago in (ended.sent_ago, ended.answered_ago))
        error = None if ended.error is None else row.error  # without its secrets
        values = (ended.sent, sent_at, answered_at, ended.status, error, ended.retry_after, ended.timings, decision)
        self.ends.append(AttemptEnd(row, values))

    def _count_attempt(self, row: Row, ended: Ended) -> None:
        """Count an attempt that has ended, and let its event say how; the row is taken on already."""
        sent_ago, answered_ago = ended.sent_ago, ended.answered_ago
        took = None if sent_ago is None or answered_ago is None else max(0, sent_ago - answered_ago)
        self._sums.attempt_ended(row.lane, ok=row.state == "completed", refused=ended.refused, took=took)
        note = row.reason or row.error
        self._sums.event(
            row.state, lane=row.lane, delivery=row.id, attempt=row.attempts, status=ended.status, note=note
        )


def _columns_of(delivery: int | str, answer: Answer) -> tuple[object, ...]:
    return (delivery, answer.status, answer.truncated, answer.size, answer.sha256, answer.headers, answer.body)
