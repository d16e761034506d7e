"""Controller: what every adaptive control is told, and what it says to the gate."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from comity.policy.failure_law import FailureLaw


class Ending(Enum):
    """How a start ended, as far as the load of the host is concerned.

    OK: an answer that is neither of the following.  REFUSED: 429.  FAILED: 5xx, or the connection was not made or lost.
    TIMED_OUT: no answer in time.  NOTHING: never sent, or the caller gave up.
    """

    OK = 0
    REFUSED = 1
    FAILED = 2
    TIMED_OUT = 3
    NOTHING = 4


Start = tuple[int, int, int]
"""A start: its rank (the count of starts before it), how many were under way, itself included, and when it was, ns."""


class Controller(Protocol):
    """An adaptive control: told of every start and its end, it gives a cap and an earliest start.

    Attributes:
        cap: how many may run at once now.
        until: the earliest next start, ns.
        wake: when it wants a `tick` though nothing happened, ns; NEVER for no such time.
        use_ttfb: the latencies that it wants end with the answer's first byte, not with its last.
        owns_refusals: a refusal that names no time concerns it alone, and pauses nobody.
    """

    cap: int
    until: int
    wake: int
    use_ttfb: bool
    owns_refusals: bool

    @property
    def refused(self) -> bool:
        """Return whether an episode of refusals is under way, by its own law."""

    @property
    def breaker(self) -> FailureLaw | None:
        """Return its law for failures, or None."""

    @property
    def limit(self) -> float | None:
        """Return the learned limit of concurrency; None where it stays what it is."""

    @property
    def floor(self) -> float:
        """Return what an answer takes without a queue (or on average), ns; 0 while unknown."""

    @property
    def rate(self) -> float | None:
        """Return the learned rate, requests per second, or None."""

    def recall(self, rate: float | None, limit: float | None, now: int) -> None:
        """Begin with a rate, requests per second, and a limit of concurrency that are known from before; None: unknown."""

    def begin(self, running: int, now: int) -> Start:
        """Note a start with `running` under way, itself included; `end` wants back what this returns."""

    def end(self, start: Start, now: int, ending: Ending, latency: int | None, hint: int | None) -> None:
        """Note an end; every start has one.

        Args:
            start: what `begin` returned.
            now: ns.
            ending: how.
            latency: of the answer, ns, or None.
            hint: the wait that a refusal named, ns, or None.
        """

    def tick(self, now: int) -> None:
        """Note that the time of `wake` came."""
