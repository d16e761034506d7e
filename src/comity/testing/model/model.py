"""Model: answers requests as an upstream under given conditions would, at the time of a virtual clock."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING

from comity.policy.units import NS
from comity.testing.model.conditions import Conditions, read
from comity.testing.scripted_transport import Answer
from comity.testing.upstream.keyed import announced, whole_seconds
from comity.testing.upstream.limits import FixedWindow, SlidingWindow, Slots, TokenBucket, Verdict

if TYPE_CHECKING:
    from comity.client.request import Request
    from comity.engine.clock import Clock


class Model:
    """The script of an upstream, for a `ScriptedTransport`.

    Args:
        text: what it bears, in the words of `comity simulate --upstream`.
        clock: what time it is.
        seed: of its jitter and errors.

    Attributes:
        accepted, refused, failed: how many it answered with 200, with 429, with anything else.

    Raises:
        OptionsError: the text has a word that is not known, or a value that cannot be used.
    """

    def __init__(self, text: str, clock: Clock, *, seed: int = 0) -> None:
        self.phases = read(text)
        self.clock = clock
        self.began: int | None = None
        """When the first request came, ns."""
        self.accepted = self.refused = self.failed = 0
        self._random = random.Random(seed)  # its own: nothing else in the process shifts it
        self._at = 0
        self._limit: TokenBucket | SlidingWindow | FixedWindow | None = None
        self._slots = Slots()

    def __call__(self, request: Request) -> Answer:  # noqa: ARG002 - all requests are alike to it
        """Answer a request that arrives now."""
        now = self.clock.now()
        if self.began is None:
            self.began = now
            self._limit = _limit(self.phases[0], now)
        here = self._conditions(now - self.began, now)
        verdict = self._judge(here, now)
        fields = self._fields(here, verdict)
        if verdict is not None and not verdict.accepted:
            self.refused += 1
            return Answer(429, headers=[*_hint(here, verdict.wait), *fields], after=self._took(here) / NS)
        took = self._took(here)
        if here.slots is not None:
            done = self._slots.enter(now, workers=here.slots, service=took, queue=here.queue)
            if done is None:
                self.failed += 1
                return Answer(503, headers=[*_hint(here, here.latency), *fields], after=here.latency / NS)
            took = done - now
        if here.errors and self._random.random() < here.errors:
            self.failed += 1
            return Answer(500, headers=fields, after=took / NS)
        self.accepted += 1
        return Answer(200, headers=fields, after=took / NS)

    def capacity(self, took: int) -> float | None:
        """Return how many could have been accepted in the first `took` ns; None while nothing limits them."""
        total = float(self.phases[0].ahead)
        ends = [phase.since for phase in self.phases[1:]]
        for phase, end in zip(self.phases, [*ends, took], strict=True):
            if phase.since >= took:
                break
            if phase.rate is None:
                return None
            total += float(phase.rate * (min(end, took) - phase.since) / NS)
        return total

    def _conditions(self, since: int, now: int) -> Conditions:
        """Return what holds now."""
        while self._at + 1 < len(self.phases) and self.phases[self._at + 1].since <= since:
            before, self._at = self.phases[self._at], self._at + 1
            here = self.phases[self._at]
            if (before.kind, before.count, before.per, before.burst) != (here.kind, here.count, here.per, here.burst):
                self._limit = _limit(here, now)
        return self.phases[self._at]

    def _judge(self, here: Conditions, now: int) -> Verdict | None:
        match self._limit:
            case None:
                return None
            case TokenBucket() as bucket:
                return bucket.admit(now)
            case window:
                return window.admit(now, here.count)

    def _took(self, here: Conditions) -> int:
        return here.latency + (round(self._random.random() * here.jitter) if here.jitter else 0)

    @staticmethod
    def _fields(here: Conditions, verdict: Verdict | None) -> list[tuple[str, str]]:
        if here.announces is None or verdict is None:
            return []
        if here.kind == "bucket":
            return announced(here.announces, here.size, here.size * here.per // here.count, verdict)
        return announced(here.announces, here.count, here.per, verdict)


def _limit(here: Conditions, now: int) -> TokenBucket | SlidingWindow | FixedWindow | None:
    match here.kind:
        case "bucket":
            return TokenBucket(Fraction(here.count * NS, here.per), here.size, now)
        case "window":
            return SlidingWindow(here.per)
        case "fixed":
            return FixedWindow(here.per, now)
        case "none":
            return None


def _hint(here: Conditions, wait: int) -> list[tuple[str, str]]:
    return [("Retry-After", str(whole_seconds(wait)))] if here.hint else []
