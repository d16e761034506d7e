"""Row: a delivery's columns that change, read, changed and written back inside one transaction."""

from __future__ import annotations

import msgspec

from comity import redact
from comity.store.records import Ended, EventKind, Mode, State
from comity.store.transitions import Facts, Step, after_attempt, after_crash

END, WAITING, READY, CLAIMED, SENDING = range(5)
"""The phases: at an end, waiting for `due_at`, ready, claimed, sending."""

LOST = "the worker was lost"
"""The error of an attempt of which nobody knows more."""


class Row(msgspec.Struct, gc=False):
    """One delivery; `n` is how its tables call it."""

    n: int | str
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

    def holds(self, lease: int, fence: int) -> bool:
        """Return whether a claim on it still holds."""
        return self.lease == lease and self.fence == fence and self.phase >= CLAIMED

    def finish(self, ended: Ended, now: int) -> Step:
        """End its attempt; return what follows."""
        self.crashes = 0
        self.refusals_in_a_row = self.refusals_in_a_row + 1 if ended.refused else 0
        if ended.refused:
            self.refusals += 1
            self.apart += 1
        self.status, self.error = ended.status, None if ended.error is None else redact.text(ended.error)
        self.idle_since = now
        step = after_attempt(self.facts, ended, now)
        self.step(step, now)
        return step

    def lose(self, now: int, due_at: int) -> None:
        """End its attempt, whose worker was lost; sent again, it is due at `due_at`."""
        self.crashes += 1
        self.refusals_in_a_row = 0
        self.status, self.error, self.idle_since = None, LOST, now
        self.step(after_crash(self.facts, due_at), now)

    def tell(self, error: str | None) -> None:
        """Have something said of it while it waits, if there is something."""
        if error is not None:
            self.error = redact.text(error)

    def unsend(self, due_at: int, now: int) -> None:
        """End its attempt, of which nothing was sent; a cancellation meanwhile ends it all."""
        self.apart += 1
        self.idle_since = now
        self.state = "retrying"
        if self.cancelling:
            self.step(Step("cancelled"), now)
        else:
            self.wait(due_at, now)

    def cancel(self, now: int) -> EventKind | None:
        """Cancel it, or ask for that while it is being sent; return the word for what happened, None when nothing did."""
        if self.phase == SENDING and not self.cancelling:
            self.cancelling = 1
            return "cancelling"
        if self.phase in {END, SENDING}:
            return None
        self.step(Step("cancelled"), now)
        return "cancelled"

    def hasten(self, now: int, ageing: int) -> None:
        """Wait no longer; it stands in its lane as if it had become due now, if not before."""
        self.rank = min(self.rank, now + self.priority * ageing)
        self.wait(now, now)

    def replay(self, now: int, ageing: int) -> None:
        """Begin anew after an end."""
        self.state, self.ended_at, self.cancelling = "pending", None, 0
        self.status = self.error = self.reason = None
        self.apart, self.refusals, self.refusals_in_a_row, self.crashes = self.attempts, 0, 0, 0
        self.enqueued_at = self.idle_since = now
        self.rank = now + self.priority * ageing
        if self.deadline is not None and self.deadline <= now:
            self.deadline = None
        self.wait(now, now)


FIXED = Row.__struct_fields__.index("state")
"""So many of its columns come first that never change."""
