"""Pause: what a host asked of everybody. Paused until a time, or blocked until a time, then a ramp.

An episode begins with the first refusal of a request that started after the last pause ended; refusals of requests that
were already under way tell nothing new, except that they may name a later time. While paused, requests wait. While
blocked, they fail at once. Afterwards the queue is not released at once: one request at a time, then one more for each
success of a request started since, up to the limit.
"""

from __future__ import annotations

NO_CAP = 1 << 62


class Pause:
    """Two facts for the gate: no start before `until`, and at most `cap` at a time."""

    __slots__ = ("_limit", "blocked_until", "cap", "until")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.until = 0
        self.blocked_until = 0
        self.cap = NO_CAP

    def pause(self, started_at: int, until: int, *, hinted: bool) -> bool:
        """Hold everybody until `until`; return whether this begins a new episode.

        Args:
            started_at: when the request started whose answer said so, ns.
            until: ns.
            hinted: the server named this time; our own guess does not lengthen an episode.
        """
        new = started_at >= self.until
        if new:
            self.cap = 1
        if new or hinted:
            self.until = max(self.until, until)
        return new

    def unblock(self) -> None:
        """Forget pause, block and ramp."""
        self.until = self.blocked_until = 0
        self.cap = NO_CAP

    def succeeded(self, started_at: int) -> None:
        """Let one more start together, if this success belongs to the time after the pause."""
        if self.cap != NO_CAP and started_at >= self.until:
            self.cap += 1
            if self.cap >= self._limit:
                self.cap = NO_CAP
