"""Stats: what is going on, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from comity.policy.limiter import HostLimiter
from comity.policy.outcome import Outcome
from comity.policy.pause import NO_CAP
from comity.policy.reason import Reason, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStats:
    """One limiter at one moment.

    Args:
        queued: waiting for their turn.
        running: holding a slot.
        concurrency: how many may run at once now, None without a limit.
        started: attempts so far of which anything was, or may have been, handed to the socket.
        retried: attempts so far that were a second or later one of their request.
        succeeded, refused, failed, cancelled: how attempts ended (below 400, 429, anything else, by the caller).
        gap: seconds between two starts now.
        limit: the concurrency that an adaptive control learned, None without one.
        floor: the seconds that, by it, an answer takes without a queue ("ema": on average), 0 while unknown.
        rate: the requests per second that it, or refusals alone, taught; None while unknown.
        paused_for: seconds until the pause ends, 0 without one.
        blocked_for: seconds until the block ends, 0 without one.
        reason: what else than the policy's own rates and gap puts the next start off the longest, "" for nothing.
        held_for: seconds until then.
        breaker: "open" while only failures come and single probes go out, "closed" otherwise; None without one.
    """

    queued: int = 0
    running: int = 0
    concurrency: int | None = None
    started: int = 0
    retried: int = 0
    succeeded: int = 0
    refused: int = 0
    failed: int = 0
    cancelled: int = 0
    gap: float = 0.0
    limit: float | None = None
    floor: float = 0.0
    rate: float | None = None
    paused_for: float = 0.0
    blocked_for: float = 0.0
    reason: Reason = ""
    held_for: float = 0.0
    breaker: Literal["open", "closed"] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the host's state as plain values for JSON; there is no secret among them."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """All hosts of a client at one moment.

    Args:
        queued, running: the sums over all hosts.
        concurrency: how many may run at once, over the hosts seen so far and `max_connections`; None without a limit.
        hosts: each host's own, by the limiter's name: a host, or a group of its requests.
    """

    queued: int = 0
    running: int = 0
    concurrency: int | None = None
    hosts: Mapping[str, HostStats] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the sums, and each host's own by its name, as plain values for JSON; there is no secret among them."""
        return {
            "queued": self.queued,
            "running": self.running,
            "concurrency": self.concurrency,
            "hosts": {name: host.as_dict() for name, host in self.hosts.items()},
        }

    @classmethod
    def of(cls, hosts: Mapping[str, HostStats], *, unseen: int | None = None, bound: int | None = None) -> Stats:
        """Return the sum of `hosts`.

        Args:
            hosts: each by its name.
            unseen: how many may run at once while no host was seen.
            bound: how many may run at once over all of them.
        """
        caps = [host.concurrency for host in hosts.values()] or [unseen]
        known = [cap for cap in caps if cap is not None]
        most = [sum(known)] if len(known) == len(caps) else []
        return cls(
            queued=sum(host.queued for host in hosts.values()),
            running=sum(host.running for host in hosts.values()),
            concurrency=min(most + ([] if bound is None else [bound]), default=None),
            hosts=hosts,
        )


class Tally:
    """The running counts of one host."""

    __slots__ = ("cancelled", "failed", "refused", "retried", "started", "succeeded")

    def __init__(self) -> None:
        self.started = self.retried = self.succeeded = self.refused = self.failed = self.cancelled = 0

    def count(self, number: int, outcome: Outcome) -> None:
        """Count an attempt that ended; `number` is 1 for the first of its request."""
        self.started += outcome.sent != "no"
        self.retried += number > 1
        if outcome.ok:
            self.succeeded += 1
        elif outcome.refused:
            self.refused += 1
        else:
            self.failed += 1

    def cut_short(self, number: int, *, sent: bool) -> None:
        """Count an attempt that the caller ended; `sent`: after its first byte."""
        self.started += sent
        self.retried += number > 1
        self.cancelled += 1

    def stats(self, core: HostLimiter, now: int) -> HostStats:
        """Return the host's present state."""
        adaptive, breaker = core.adaptive, core.breaker
        why, held_for = reason(core, now)
        return HostStats(
            queued=core.queued + core.aside,
            running=core.running,
            concurrency=None if core.cap == NO_CAP else core.cap,
            started=self.started,
            retried=self.retried,
            succeeded=self.succeeded,
            refused=self.refused,
            failed=self.failed,
            cancelled=self.cancelled,
            gap=core.gap.width / 1e9,
            limit=None if adaptive is None else adaptive.limit,
            floor=0.0 if adaptive is None else adaptive.floor / 1e9,
            rate=None if adaptive is None else adaptive.rate,
            paused_for=max(0, core.hold - now) / 1e9,
            blocked_for=max(0, core.pause.blocked_until - now) / 1e9,
            reason=why,
            held_for=held_for / 1e9,
            breaker=None if breaker is None else "open" if breaker.open else "closed",
        )
