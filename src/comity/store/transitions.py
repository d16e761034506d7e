"""What becomes of a delivery when an attempt ends, or its worker is lost.

    pending ──► (sending) ──► completed                     replay leads from an end back to pending
       │           │  ├─────► failed
       │           │  └─────► retrying ──► (sending) ...
       └───────────┴────────► cancelled

An end that an attempt reached stands, also when a cancellation was asked for meanwhile; a cancellation prevents what would
have followed. The rules are those of every store, so they stand here and not in SQL.
"""

from __future__ import annotations

import msgspec

from comity.store.records import Ended, Mode, State

MOST_CRASHES = 5
"""So many workers in a row may be lost while sending a delivery; one more, and it is poison."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What decides.

    Args:
        attempts: of this round, the last included, refusals left out.
        crashes: workers lost in a row, this one included.
        cancelling: a cancellation was asked for.
    """

    mode: Mode
    attempts: int
    max_attempts: int
    crashes: int
    cancelling: bool
    deadline: int | None


class Step(msgspec.Struct, frozen=True, gc=False):
    """The state that follows; when it is not an end, when to send again; when it failed, why."""

    state: State
    due_at: int = 0
    reason: str | None = None


def after_attempt(facts: Facts, ended: Ended, now: int) -> Step:
    """Return what follows an attempt that ended."""
    if ended.then == "completed":
        return Step("completed")
    if ended.then == "failed":
        return Step("failed", reason=ended.reason)
    if facts.cancelling:
        return Step("cancelled")
    if facts.mode == "at_most_once" and ended.sent != "no" and not ended.refused:
        return Step("failed", reason="outcome unknown")
    return _again(facts, now + max(0, ended.wait))


def after_crash(facts: Facts, due_at: int) -> Step:
    """Return what follows an attempt whose outcome nobody knows."""
    if facts.cancelling:
        return Step("cancelled")
    if facts.mode == "at_most_once":
        return Step("failed", reason="outcome unknown")
    if facts.crashes > MOST_CRASHES:
        return Step("failed", reason="poison")
    if facts.attempts >= facts.max_attempts:
        return Step("failed", reason="worker lost")
    return _again(facts, due_at)


def _again(facts: Facts, due_at: int) -> Step:
    if facts.deadline is not None and due_at >= facts.deadline:
        return Step("failed", reason="deadline")
    return Step("retrying", due_at)
