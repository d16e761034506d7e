"""Outlook: what a run waits for, and how long what is left will take at least."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from comity.bulk.clock_text import clock_text
from comity.engine.stats import Stats
from comity.policy.host_rules import HostRules
from comity.policy.options import Policy


class Outlook:
    """Answers for progress.

    Args:
        policy, hosts: the limits, as for a run.
        seen: the hosts that were seen so far.
        stats: returns the state of the limiters.
    """

    def __init__(
        self, policy: Policy, hosts: Mapping[str, Policy], seen: Collection[str], stats: Callable[[], Stats]
    ) -> None:
        self.rules, self.seen, self.stats = HostRules(policy, hosts), seen, stats

    def least(self, rows: int) -> float:
        """Return the seconds that so many rows take at least; 0 when they may be spread over several hosts."""
        found = dict(self.rules.match(host) for host in self.seen) if len(self.seen) <= 1 else {}
        waits = [0.0]
        for policy in found.values():
            waits += [rows * rate.per / rate.max for rate in policy.rate if rate.unit == "requests"]
            waits += [rows * policy.min_gap] if policy.min_gap else []
        return max(waits)

    def why(self) -> str:
        """Return what the rows wait for, "" when none waits."""
        hosts = self.stats().hosts.values()
        if pause := max((host.paused_for for host in hosts), default=0.0):
            return f"paused by the server, {clock_text(pause)}"
        return "waiting for the rate" if any(host.queued for host in hosts) else ""
