"""Outlook: what a run waits for, what it has found out, and how long what is left will take at least."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from comity.bulk.found import found, paused, rate_text
from comity.engine.stats import HostStats, Stats
from comity.policy.options import Policy

_LINES = 10
"""So many hosts are told of at the end."""


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
        """Return what the rows wait for, "" when none waits or something runs and is only paced."""
        stats = self.stats()
        longest = max(stats.hosts.values(), key=lambda host: host.held_for, default=HostStats())
        return paused(longest) or ("waiting for the rate" if stats.queued and not stats.running else "")

    def learned(self) -> list[str]:
        """Return the limits that the answers taught so far, briefly; nothing when there are several hosts."""
        hosts = self.stats().hosts
        parts: list[str] = []
        for name, host in hosts.items() if len(hosts) == 1 else ():
            policy = self.seen.get(name)
            if host.limit is not None:
                most = None if policy is None else policy.concurrency
                parts.append(f"limit {int(host.limit)}" + (f"/{most}" if most is not None else ""))
            if host.rate is not None:
                parts.append(f"~{rate_text(host.rate)}/s")
        return parts

    def found(self) -> list[str]:
        """Return what was found out about each host, a line each, for the end."""
        hosts = self.stats().hosts
        lines: list[str] = []
        for name, host in hosts.items():
            policy = self.seen.get(name)
            if text := found(host, None if policy is None else policy.concurrency):
                lines.append(f"found: {text}" if len(hosts) == 1 else f"found at {name}: {text}")
        more = [f"found: the limits of {len(lines) - _LINES:,} more hosts"] if len(lines) > _LINES else []
        return lines[:_LINES] + more
