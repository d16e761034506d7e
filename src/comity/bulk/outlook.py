"""Outlook: what a run waits for, and how long what is left will take at least."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from comity.bulk.clock_text import clock_text
from comity.engine.stats import Stats
from comity.policy.options import Policy


class Outlook:
    """Answers for progress.

    Args:
        seen: the limits that rows came under so far, by name.
        stats: returns the state of the limiters.
    """

    def __init__(self, seen: Mapping[str, Policy], stats: Callable[[], Stats]) -> None:
        self.seen, self.stats = seen, stats

    def least(self, rows: int) -> float:
        """Return the seconds that so many rows take at least; 0 when they may be spread over several limiters."""
        waits = [0.0]
        for policy in self.seen.values() if len(self.seen) <= 1 else ():
            waits += [rows * rate.per / rate.max for rate in policy.rate if rate.unit == "requests"]
            waits += [rows * policy.min_gap] if policy.min_gap else []
        return max(waits)

    def why(self) -> str:
        """Return what the rows wait for, "" when none waits."""
        hosts = self.stats().hosts.values()
        if pause := max((host.paused_for for host in hosts), default=0.0):
            return f"paused by the server, {clock_text(pause)}"
        return "waiting for the rate" if any(host.queued for host in hosts) else ""
