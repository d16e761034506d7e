"""Pause: what a host asked of everybody. Paused until a time, or blocked until a time, then a ramp.

An episode begins with the first refusal of a request that started after the last pause ended; refusals of requests that
were already under way tell nothing new, except that they may name a later time. While paused, requests wait. While
blocked, they fail at once. Afterwards, however often the end was put off, the queue is not released at once: one request
at a time, then one more for each success of a request started since, up to the limit.
"""

from __future__ import annotations

NO_CAP = 1 << 62


class Pause:
    """Two facts for the gate: no start before `until`, and at most `cap` at a time.

    Attributes:
        hinted: the server named the time; False: our own guess.
    """

    __slots__ = ("_limit", "blocked_until", "cap", "hinted", "until")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.until = 0
        self.blocked_until = 0
        self.cap = NO_CAP
        self.hinted = False

    def pause(self, started_at: int, until: int, *, hinted: bool) -> bool:
        """Hold everybody until `until`; return whether this begins a new episode.

        Args:
            started_at: when the request started whose answer said so, ns.
            until: ns.
            hinted: the server named this time; our own guess does not lengthen an episode.
        """
        new = started_at >= self.until
        if new or (hinted and until > self.until):
            self.hinted = hinted
            self.until = max(self.until, until)
            self.cap = 1
        return new

    def lift(self) -> None:
        """End pause and block; the ramp stays."""
        self.until = self.blocked_until = 0

    def ramp(self) -> None:
        """Let one start at a time, then more, as after a pause."""
        self.cap = 1

    def succeeded(self) -> None:
        """Let one more start together: a request that started after the pause succeeded."""
        self.cap = self.cap + 1 if self.cap + 1 < self._limit else NO_CAP
