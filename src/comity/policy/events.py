"""Event: what happened, for stats, metrics, logs and dashboards, which read and change nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

EventType = Literal["queued", "started", "finished", "retrying", "paused", "blocked", "failed"]
"""queued: a request waits for its turn.  started: an attempt was handed to the transport.  finished: it came to an end.
retrying: another one follows, after `wait`.  paused: the host asked everybody to wait.  blocked: for longer than anybody
may wait.  failed: the request ends without a usable answer (`reason`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One step of one request, or of its host.

    Args:
        type: which step.
        host: the limiter's name.
        at: when, seconds since the epoch.
        number: the attempt's number, 0 before the first.
        status: the answer's status code, when there was one.
        error: the error's class name and message, when there was none.
        wait: seconds until what comes next (retrying, paused, blocked), or that were waited (started).
        reason: why, in a word or two.
    """

    type: EventType
    host: str
    at: float
    number: int = 0
    status: int | None = None
    error: str | None = None
    wait: float | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the event as plain values for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
