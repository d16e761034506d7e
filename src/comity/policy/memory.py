"""HostMemory: what a host taught, and what of its rates is taken, kept for the next process.

A limit that begins anew with each process is no limit of the server's: a run that is stopped and started again would send
twice what an hour allows. So what is still open of each rate is kept with its age, as are a pause, a block and the learned
gap. What was learned by guessing ages: the gap halves every FADES, a rate and a limit of concurrency are a beginning
for LEARNED_FOR. What the server said does not.
"""

from __future__ import annotations

import msgspec

from comity.policy.gap import FIRST
from comity.policy.limiter import HostLimiter
from comity.policy.units import NS

FADES = 60 * NS
"""The age, ns, after which half of a learned gap is left."""


LEARNED_FOR = 86_400 * NS
"""The age, ns, up to which a learned rate and concurrency are worth more than a beginning."""


class HostMemory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is kept of one host. Ages and lengths are ns, relative to `at`.

    Args:
        at: when this was true, ns since the epoch.
        taken: by rate, what is open of it: (age, cost), the oldest first.
        gap: the learned gap.
        paused, blocked: what is left of a pause or block.
        rate, limit: the learned rate, requests per second, and concurrency.
    """

    at: int
    taken: dict[str, list[tuple[int, int]]] = {}
    gap: int = 0
    paused: int = 0
    blocked: int = 0
    rate: float | None = None
    limit: float | None = None


def remember(limiter: HostLimiter, now: int, wall: int) -> HostMemory | None:
    """Return what is to be kept of a host; None for nothing.

    Args:
        limiter: the host's.
        now: ns.
        wall: the time of day then, ns since the epoch.
    """
    pause, adaptive = limiter.pause, limiter.adaptive
    memory = HostMemory(
        at=wall,
        taken=limiter.meters.taken(now),
        gap=limiter.gap.learned,
        paused=max(0, pause.until - now),
        blocked=max(0, pause.blocked_until - now),
        rate=None if adaptive is None else adaptive.rate,
        limit=None if adaptive is None else adaptive.limit,
    )
    return memory if memory != HostMemory(at=wall) else None


def recall(limiter: HostLimiter, memory: HostMemory, now: int, wall: int) -> None:
    """Let a new limiter begin with what is kept; it counts for rates that are no longer the same, too.

    Args:
        limiter: the host's; nothing was sent yet.
        memory: what is kept.
        now: ns.
        wall: the time of day, ns since the epoch; one that was set back counts as no time at all.
    """
    age = max(0, wall - memory.at)
    limiter.meters.retake(memory.taken, now - age)
    faded = memory.gap >> min(age // FADES, 63)
    limiter.gap.learned = faded if limiter.gap.learns and faded >= FIRST else 0
    pause = limiter.pause
    if memory.paused > age:
        pause.pause(now, now + memory.paused - age, hinted=True)
    if memory.blocked > age:
        pause.blocked_until = now + memory.blocked - age
    if age < LEARNED_FOR and (memory.rate is not None or memory.limit is not None):
        limiter.recall(memory.rate, memory.limit, now)
    limiter.refresh()
