"""Adapters of comity's gate to a judge of adaptive controls: float seconds there, whole nanoseconds here.

The judge asks `next_start`, tells `on_start` and `on_finish`, and takes the wait before another attempt from
`retry_delay`. What decides is the library's own host limiter, with its adaptive control, its pauses and its reading of
announced quotas, and its rules of retrying, all with their defaults.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from comity.policy.adaptive import Algorithm
from comity.policy.feedback import end_attempt
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.quotas import Quota
from comity.policy.retry import CallState, Decision, RetryAt, decide
from comity.policy.ticket import Ticket
from comity.policy.units import seconds, to_seconds
from comity.policy.windows import NEVER


class Draws(Protocol):
    """Where chance comes from."""

    def random(self) -> float:
        """Return a number in [0, 1)."""


class Sent:
    """What the library knows of one request."""

    def __init__(self, limiter: HostLimiter, now: int) -> None:
        self.ticket = Ticket(5, limiter.meters.ordinary)
        self.call = CallState(idempotent=True, started=now)
        self.decision: Decision | None = None


class Comity:
    """`adaptive="auto"`.

    Args:
        limit: the host's concurrency.
        rng: chance.
    """

    name = "comity"
    algorithm: Algorithm = "auto"

    def __init__(self, limit: int, rng: Draws) -> None:
        self.limit, self._rng = limit, rng
        self.policy = Policy(concurrency=limit, adaptive=self.algorithm)
        self._limiter: HostLimiter | None = None

    def next_start(self, now: float, inflight: int, waiting: int) -> float:  # noqa: ARG002 - the judge's interface
        """Return when to ask again: now means that a request may start, infinity when another one has ended."""
        limiter, ns = self.limiter(now), seconds(now)
        limiter.admit(ns)
        if inflight >= limiter.cap:
            start = NEVER if limiter.adaptive is None else limiter.adaptive.wake + 1
        else:
            start = limiter.earliest(ns)
        if start >= NEVER:
            return math.inf
        return now if start <= ns else math.nextafter(to_seconds(start), math.inf)

    def on_start(self, now: float, req: Any, inflight: int) -> None:  # noqa: ARG002 - the judge's interface
        """Note a start."""
        limiter, ns = self.limiter(now), seconds(now)
        if req.extra is None:
            req.extra = Sent(limiter, ns)
        if not limiter.grant_at_once(req.extra.ticket, ns):
            raise RuntimeError(f"the gate opened at {now} s and is closed")
        limiter.started(req.extra.ticket, ns)

    def on_finish(self, now: float, req: Any, out: Any, inflight: int) -> None:  # noqa: ARG002 - the judge's interface
        """Note an end."""
        limiter, ns, sent = self.limiter(now), seconds(now), req.extra
        if out.headers:
            reset = seconds(out.headers["reset"])
            quota = Quota("judge", limit=out.headers["limit"], remaining=out.headers["remaining"], reset=reset)
            limiter.announced(sent.ticket, [quota], ns)
        outcome = _outcome(out)
        sent.call.count(self.policy.retry, outcome)
        sent.decision = decide(self.policy.retry, sent.call, outcome, ns, self._rng.random())
        end_attempt(limiter, sent.ticket, outcome, sent.decision, ns)

    def retry_delay(self, now: float, req: Any, out: Any) -> float | None:  # noqa: ARG002 - the judge's interface
        """Return the wait before another attempt, or None to give up."""
        decision = req.extra.decision
        return to_seconds(decision.at - seconds(now)) if isinstance(decision, RetryAt) else None

    def limiter(self, now: float) -> HostLimiter:
        """Return the gate, made when it is first asked for; all clients' wall clocks agree."""
        if self._limiter is None:
            self._limiter = HostLimiter(self.policy, seconds(now))
        return self._limiter


class ComityEma(Comity):
    """`adaptive="ema"`."""

    name = "comity ema"
    algorithm: Algorithm = "ema"


def _outcome(out: Any) -> Outcome:
    if out.status:
        return Outcome(status=out.status, retry_after=None if out.retry_after is None else seconds(out.retry_after))
    return Outcome(failure="timeout" if out.kind == "timeout" else "lost")
