"""Adapters of comity's adaptive controls to a judge of such controls: float seconds there, whole nanoseconds here.

The judge asks `next_start`, tells `on_start` and `on_finish`, and takes the wait before another attempt from
`retry_delay`. What decides is the library's own: its controller and its rules of retrying, with their defaults.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from comity.policy.adaptive import Adaptive
from comity.policy.auto import Auto
from comity.policy.controller import Controller, Ending
from comity.policy.ema import Ema
from comity.policy.outcome import Outcome
from comity.policy.retry import CallState, Retry, RetryAt, decide
from comity.policy.units import seconds, to_seconds

ENDINGS = {
    "ok": Ending.OK,
    "throttle": Ending.REFUSED,
    "server": Ending.FAILED,
    "conn": Ending.FAILED,
    "timeout": Ending.TIMED_OUT,
}
RETRY = Retry()


class Draws(Protocol):
    """Where chance comes from."""

    def random(self) -> float:
        """Return a number in [0, 1)."""


class Comity:
    """`adaptive="auto"`.

    Args:
        limit: the host's concurrency.
        rng: chance.
    """

    name = "comity"

    def __init__(self, limit: int, rng: Draws) -> None:
        self.limit, self._rng = limit, rng
        self._begun: Controller | None = None

    def next_start(self, now: float, inflight: int, waiting: int) -> float:  # noqa: ARG002 - the judge's interface
        """Return when the next request may start, or infinity for: when another one has ended."""
        core, ns = self._core(now), seconds(now)
        if inflight >= core.cap:
            return math.inf
        return now if core.until <= ns else math.nextafter(to_seconds(core.until), math.inf)

    def on_start(self, now: float, req: Any, inflight: int) -> None:
        """Note a start, with `inflight` under way, itself included."""
        ns = seconds(now)
        call = req.extra[0] if req.extra else CallState(idempotent=True, started=ns)
        req.extra = call, self._core(now).begin(inflight, ns)

    def on_finish(self, now: float, req: Any, out: Any, inflight: int) -> None:  # noqa: ARG002 - the judge's interface
        """Note an end."""
        core, ns = self._core(now), seconds(now)
        if out.headers:
            core.announce(out.headers["remaining"], seconds(out.headers["reset"]), ns)
        core.end(req.extra[1], ns, ENDINGS[out.kind], seconds(out.latency), _hint(out))

    def retry_delay(self, now: float, req: Any, out: Any) -> float | None:
        """Return the wait before another attempt, or None to give up."""
        call: CallState = req.extra[0]
        outcome = Outcome(status=out.status, retry_after=_hint(out))
        if not out.status:
            outcome = Outcome(failure="timeout" if out.kind == "timeout" else "lost")
        call.count(RETRY, outcome)
        ns = seconds(now)
        decision = decide(RETRY, call, outcome, ns, self._rng.random())
        return to_seconds(decision.at - ns) if isinstance(decision, RetryAt) else None

    def _core(self, now: float) -> Controller:
        if self._begun is None:
            self._begun = self._made(seconds(now))
        return self._begun

    def _made(self, now: int) -> Controller:
        return Auto(minimum=1, maximum=self.limit, initial=None, now=now)


class ComityEma(Comity):
    """`adaptive="ema"`."""

    name = "comity ema"

    def _made(self, now: int) -> Controller:  # noqa: ARG002 - it knows no time
        return Ema(Adaptive(algorithm="ema"), self.limit)


def _hint(out: Any) -> int | None:
    return None if out.retry_after is None else seconds(out.retry_after)
