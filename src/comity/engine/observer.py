"""Observer: hands events to the caller's function, which can neither slow nor break a request by failing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from comity.engine.changes import News
from comity.engine.clock import Clock
from comity.policy.attempt import Attempt
from comity.policy.events import Event, EventType
from comity.policy.reason import Reason
from comity.policy.retry import Decision, Done, GiveUp, RetryAt
from comity.policy.units import plain_function

Observe = Callable[[Event], object]

log = logging.getLogger("comity")


def observer(observe: Observe | None) -> Observe | None:
    """Return `observe` made safe: what it raises is logged, once per kind of error, and goes no further."""
    if observe is None:
        return None
    plain_function(observe, "on_event")
    seen: set[type[BaseException]] = set()

    def safely(event: Event) -> None:
        try:
            observe(event)
        except Exception as error:
            if type(error) not in seen:
                seen.add(type(error))
                log.exception("on_event raised for a %r event; later ones of this kind are not logged", event.type)

    return safely


class Reporter:
    """Tells the steps of one call.

    Args:
        observe: is told.
        host: the limiter's name.
        clock: for the time of day.
    """

    __slots__ = ("_clock", "_host", "_observe")

    def __init__(self, observe: Observe, host: str, clock: Clock) -> None:
        self._observe, self._host, self._clock = observe, host, clock

    def queued(self, number: int) -> None:
        """Tell that an attempt waits for its turn."""
        self._tell("queued", number=number)

    def started(self, number: int, *, waited: int) -> None:
        """Tell that an attempt is handed over, after `waited` ns."""
        self._tell("started", number=number, wait=waited / 1e9)

    def ended(self, attempt: Attempt, decision: Decision, now: int, *, new_episode: bool) -> None:
        """Tell what an attempt came to and what follows."""
        what: dict[str, Any] = {"number": attempt.number, "status": attempt.status, "error": attempt.error}
        self._tell("finished", **what, reason=attempt.decision)
        if isinstance(decision, GiveUp) and decision.block is not None:
            self._tell("blocked", **what, wait=max(0, decision.block - now) / 1e9)
        elif new_episode:
            pause = None if isinstance(decision, Done) else decision.pause
            why: Reason = "refused" if attempt.retry_after is None else "retry-after"
            self._tell("paused", **what, wait=0.0 if pause is None else max(0, pause - now) / 1e9, reason=why)
        if isinstance(decision, RetryAt):
            what["number"] += 1
            self._tell("retrying", **what, wait=max(0, decision.at - now) / 1e9, reason=decision.reason)
        elif isinstance(decision, GiveUp):
            self._tell("failed", **what, reason=decision.reason)

    def changed(self, news: Iterable[News]) -> None:
        """Tell what changed at the host."""
        for each in news:
            self._tell(each.type, wait=each.wait, limit=each.limit, rate=each.rate)

    def failed(self, number: int, error: BaseException) -> None:
        """Tell that a call ends without an outcome: its turn did not come, or its caller gave up."""
        name = type(error).__name__
        if isinstance(error, Exception):
            self._tell("failed", number=number, error=f"{name}: {error}", reason=name)
        else:
            self._tell("failed", number=number, error=name, reason="cancelled")

    def _tell(self, kind: EventType, **more: Any) -> None:
        self._observe(Event(type=kind, host=self._host, at=self._clock.wall() / 1e9, **more))
