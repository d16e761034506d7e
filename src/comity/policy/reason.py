"""Reason: why a host lets nobody start at the moment, for people. The gate decides without it."""

from __future__ import annotations

from typing import Literal

from comity.policy.limiter import HostLimiter

Reason = Literal["", "blocked", "retry-after", "refused", "quota used up", "quota spread", "breaker open", "rate law"]
"""blocked: until a time that is too far off to wait for.  retry-after: until the time that an answer named.  refused: 429 that
named none.  quota used up: until the announced reset.  quota spread: what is announced to be left is spread until then.
breaker open: only failures came, and the next probe is not due.  rate law: the learned rate.  "": none of these."""


def reason(limiter: HostLimiter, now: int) -> tuple[Reason, int]:
    """Return what puts the next start off the longest, and for how long, ns.

    The rates and the gap that the policy itself asks for are no such reason.
    """
    pause, spread, breaker, adaptive = limiter.pause, limiter.spread, limiter.breaker, limiter.adaptive
    found: list[tuple[int, Reason]] = [
        (pause.blocked_until, "blocked"),
        (pause.until, "retry-after" if pause.hinted else "refused"),
        (spread.until, "quota used up" if spread.used_up else "quota spread"),
    ]
    if breaker is not None and breaker.open:
        found.append((breaker.until, "breaker open"))
    if adaptive is not None:
        found.append((adaptive.until, "rate law"))
    until, why = max(found, key=lambda each: each[0])
    return (why, until - now) if until > now else ("", 0)
