"""Estimate: how long a run will take under its limits, without sending anything.

The real gate of each host is driven with a clock of numbers alone: every request is granted when the limits allow, is
answered at once, and the time of the last start is the answer. What servers need to answer comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from comity.bulk.clock_text import clock_text
from comity.bulk.failures import Failures
from comity.bulk.rows import Invalid, Row
from comity.errors import OptionsError
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.ticket import Ticket


@dataclass(slots=True)
class HostPlan:
    """What is planned for one host, or for the hosts that share its limits.

    Attributes:
        rows: how many requests.
        seconds: when the last of them may start.
    """

    rows: int = 0
    now: int = 0
    limiter: HostLimiter = field(default_factory=lambda: HostLimiter(Policy(), 0))

    @property
    def seconds(self) -> float:
        """When the last request may start, seconds from the beginning."""
        return self.now / 1e9

    def add(self, row: Row) -> None:
        """Plan one more request.

        Raises:
            OptionsError: its cost can never be admitted.
        """
        ticket = Ticket(row.priority, self.limiter.meters.costs(row.cost))
        self.rows += 1
        self.limiter.enqueue(ticket, self.now)
        admission = self.limiter.admit(self.now)
        while not admission.granted:
            self.now = admission.wake_at
            admission = self.limiter.admit(self.now)
        self.limiter.started(ticket, self.now)
        self.limiter.answered(ticket, self.now)
        self.limiter.release(ticket, self.now)


class Estimate:
    """The plan of a whole run.

    Args:
        finished: rows that earlier runs finished.
        unknown: those and others of unknown outcome, which are left alone.

    Attributes:
        hosts: by the name of their limits.
        refused: why lines cannot be sent.
        warnings: what else is to be told.
    """

    def __init__(self, *, finished: int = 0, unknown: int = 0) -> None:
        self.hosts: dict[str, HostPlan] = {}
        self.finished, self.unknown = finished, unknown
        self.refused = Failures()
        self.warnings: Sequence[str] = ()
        self.invalid = 0
        """Lines that cannot be sent."""

    def add(self, row: Row, name: str, policy: Policy) -> None:
        """Plan a row under the limits called `name`."""
        plan = self.hosts.get(name)
        if plan is None:
            plan = self.hosts[name] = HostPlan(limiter=HostLimiter(policy, 0, name=name))
        try:
            plan.add(row)
        except OptionsError as error:
            self.invalid += 1
            self.refused.note("invalid", row.line, str(error))

    def refuse(self, invalid: Invalid) -> None:
        """Count a line that is no request."""
        self.invalid += 1
        self.refused.note("invalid", invalid.line, invalid.message)

    def lines(self) -> list[str]:
        """Return the plan in words, the longest host first."""
        plans = sorted(self.hosts.items(), key=lambda item: -item[1].seconds)
        lines = [f"{name}  {plan.rows:,} requests  {clock_text(plan.seconds)}  {_limits(plan)}" for name, plan in plans]
        whole = f"{self.rows:,} requests to {len(plans)} {'host' if len(plans) == 1 else 'hosts'}"
        more = [f"{self.finished:,} finished earlier"] if self.finished else []
        more += [f"{self.unknown:,} of unknown outcome are left alone (--resend-unknown)"] if self.unknown else []
        more += [f"{self.invalid:,} lines that cannot be sent"] if self.invalid else []
        lines.append(", ".join([whole, *more]))
        if self.invalid:
            lines.append(f"cannot be sent: {self.refused.text()}")
        lines += self.warnings
        limited = any(plan.limiter.policy.rate or plan.limiter.policy.min_gap for plan in self.hosts.values())
        if not self.rows:
            lines.append("nothing to do")
        elif limited:
            lines.append(
                f"at least {clock_text(self.seconds)} under these limits; the time that servers take comes on top"
            )
        else:
            lines.append("no rate is set: it takes as long as the servers do")
        return lines

    @property
    def rows(self) -> int:
        """All requests."""
        return sum(plan.rows for plan in self.hosts.values())

    @property
    def seconds(self) -> float:
        """When the last request of the slowest host may start."""
        return max((plan.seconds for plan in self.hosts.values()), default=0.0)


def _limits(plan: HostPlan) -> str:
    policy = plan.limiter.policy
    parts = [str(rate) for rate in policy.rate]
    parts += [f"{policy.concurrency} at once"] if policy.concurrency is not None else []
    parts += [f"{policy.min_gap:g} s apart"] if policy.min_gap else []
    return f"({', '.join(parts) or 'no limit'})"
