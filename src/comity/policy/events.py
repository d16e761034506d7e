"""Event: what happened, for stats, metrics, logs and dashboards, which read and change nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

EventType = Literal[
    "queued", "started", "finished", "retrying", "paused", "blocked", "failed", "limited", "opened", "closed"
]
"""The steps; see `Event`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One step of one request, or of its host.

    The steps of a request are queued (it waits for its turn), started (an attempt was handed to the transport), finished (it
    came to an end), retrying (another one follows, after `wait`) and failed (it ends without a usable answer; `reason`).

    Those of a host are paused (it asked everybody to wait), blocked (for longer than anybody may wait), limited (what it
    taught, a `limit` on what runs at once or a `rate`, is another by a fifth at least), opened (only failures came, so that
    single probes go out from now on) and closed (one of these succeeded).

    Args:
        type: which step.
        host: the limiter's name.
        at: when, seconds since the epoch.
        number: the attempt's number, 0 before the first.
        status: the answer's status code, when there was one.
        error: the error's class name and message, when there was none.
        wait: seconds until what comes next (retrying, paused, blocked, opened), or that were waited (started).
        reason: why, in a word or two.
        limit: the learned limit of concurrency (limited).
        rate: the learned rate, requests per second (limited).
    """

    type: EventType
    host: str
    at: float
    number: int = 0
    status: int | None = None
    error: str | None = None
    wait: float | None = None
    reason: str = ""
    limit: float | None = None
    rate: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the event as plain values for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
