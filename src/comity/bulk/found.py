"""What a run found out about a host, and what it waits for there, in words."""

from __future__ import annotations

from comity.bulk.clock_text import clock_text
from comity.engine.stats import HostStats
from comity.policy.reason import Reason

_WORDS: dict[Reason, str] = {
    "blocked": "the server said until when",
    "retry-after": "Retry-After",
    "refused": "429",
    "quota used up": "its quota is used up",
    "quota spread": "little of its quota is left",
    "breaker open": "it only fails, next probe then",
    "rate law": "its rate, as found",
}
_WORTH = 1.0
"""Seconds from which it is worth telling that a rate or quota is paced."""


def found(host: HostStats, most: int | None) -> str:
    """Return the limits that the host's answers taught, "" for none.

    Args:
        host: its state.
        most: the concurrency that it may learn at most, None for any.
    """
    parts = [] if host.rate is None else [f"about {rate_text(host.rate)} requests/s"]
    if host.limit is not None:
        at_once = int(host.limit)
        parts.append(f"at least {most} at once" if most is not None and at_once >= most else f"{at_once} at once")
    return ", ".join(parts)


def rate_text(rate: float) -> str:
    """Return a learned rate with no more digits than are known: "38", "6", "0.25"."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def paused(host: HostStats) -> str:
    """Return for how long nothing starts and why, "" when something may start, or is only paced."""
    if not host.reason or (host.reason in {"quota spread", "rate law"} and host.held_for < _WORTH):
        return ""
    return f"paused {clock_text(host.held_for)} ({_WORDS[host.reason]})"
