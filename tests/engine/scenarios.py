"""Scenarios: what is called when, what the server says to each send, and what has to come of it; one table for all engines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange, Settled
from comity.engine.hosts import Hosts
from comity.engine.thread_engine import ThreadEngine
from comity.errors import RequestError
from comity.policy.backoff import Backoff
from comity.policy.options import Policy
from comity.policy.outcome import Failure, Outcome
from comity.policy.retry import Retry
from comity.policy.units import NS
from comity.testing.virtual_clock import VirtualClock

PLAIN = Backoff(jitter=None)
APART = 1_000
"""Calls arrive so many ns one after the other, so that threads keep the table's order too."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one send comes to: a status or a failure, after so many seconds; `retry_after` in seconds."""

    status: int | None = None
    failure: Failure | None = None
    takes: float = 0.1
    retry_after: float | None = None
    sent: str = "yes"


def answers(*codes: int | str | Answer, takes: float = 0.1) -> tuple[Answer, ...]:
    """Return answers; a word is a failure. The last one is given for ever after."""
    made = []
    for code in codes:
        if isinstance(code, Answer):
            made.append(code)
        elif isinstance(code, int):
            made.append(Answer(status=code, takes=takes))
        else:
            made.append(Answer(failure=code, takes=takes, sent="no" if code == "connect" else "maybe"))
    return tuple(made)


def refused(retry_after: float | None = None, *, takes: float = 0.1) -> Answer:
    return Answer(status=429, retry_after=retry_after, takes=takes)


OK = answers(200)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One call and what has to come of it. Times are seconds from the scenario's start, rounded to milliseconds.

    Args:
        at: when it is made.
        gets: what the server says to each send.
        starts: when its sends have to start.
        ends: status or failure, followed by the reason for giving up if there was one; or the error's name.
        until: when it has to end.
    """

    at: float = 0.0
    host: str = "api.example"
    gets: tuple[Answer, ...] = OK
    priority: int = 5
    cost: int | Mapping[str, int] = 1
    idempotent: bool = True
    replayable: bool = True
    deadline: float | None = None
    queue_timeout: float | None = None
    starts: tuple[float, ...] = (0.0,)
    ends: str = "200"
    until: float | None = None
    cancel: float | None = None


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A policy, calls under it, and their results."""

    name: str
    policy: Policy = field(default_factory=Policy)
    hosts: Mapping[str, Policy] = field(default_factory=dict)
    max_connections: int | None = 500
    asked: tuple[Asked, ...] = (Asked(),)
    close: float | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(kw_only=True)
class Seen:
    """What came of one call."""

    starts: list[float] = field(default_factory=list)
    ends: str = ""
    until: float = 0.0
    attempts: tuple[Any, ...] = ()
    error: BaseException | None = None
    settled: Settled[Any] | None = None


class Play:
    """One scenario on one engine in virtual time."""

    def __init__(self, scenario: Scenario, observe: Callable[[Any], object] | None = None) -> None:
        self.scenario = scenario
        self.clock = VirtualClock()
        self.began = self.clock.now()
        self.hosts = Hosts(
            scenario.policy,
            scenario.hosts,
            max_connections=scenario.max_connections,
            clock=self.clock,
            observe=observe,
        )
        self.seen = [Seen() for _ in scenario.asked]

    def on(self, engine: str) -> list[Seen]:
        """Play it on "async" or "threads" and return what came of each call."""
        if engine == "async":
            self.clock.run(self._tasks())
        else:
            played = [lambda n=n: self._thread(n) for n in range(len(self.scenario.asked))]
            closing = [] if self.scenario.close is None else [self._close_in_thread]
            self.clock.run_threads(*played, *closing)
        return self.seen

    def stats(self) -> tuple[int, int]:
        stats = self.hosts.stats()
        return stats.queued, stats.running

    # ---- as tasks

    async def _tasks(self) -> None:
        tasks = [asyncio.create_task(self._task(n)) for n in range(len(self.scenario.asked))]
        loop = asyncio.get_running_loop()
        for task, asked in zip(tasks, self.scenario.asked, strict=True):
            if asked.cancel is not None:
                loop.call_later(asked.cancel, task.cancel)
        if self.scenario.close is not None:
            loop.call_later(self.scenario.close, self.hosts.close)
        await asyncio.gather(*tasks)

    async def _task(self, n: int) -> None:
        asked, seen = self.scenario.asked[n], self.seen[n]
        await asyncio.sleep((asked.at * NS + n * APART) / NS)

        async def send(slot: Any) -> Exchange[int]:
            answer, takes = self._begin(asked, seen, slot)
            if answer.sent != "no":
                slot.sent()
            await asyncio.sleep(takes / NS)
            slot.answered()
            return self._exchange(answer)

        try:
            settled = await AsyncEngine(self.hosts, draw=lambda: 0.0).run(self._call(asked), send)
        except BaseException as error:
            self._end(seen, error)
            if not isinstance(error, RequestError | asyncio.CancelledError):
                raise
        else:
            self._end(seen, settled)

    # ---- as threads

    def _thread(self, n: int) -> None:
        asked, seen = self.scenario.asked[n], self.seen[n]
        self._sleep(round(asked.at * NS) + n * APART)

        def send(slot: Any) -> Exchange[int]:
            answer, takes = self._begin(asked, seen, slot)
            if answer.sent != "no":
                slot.sent()
            self._sleep(takes)
            slot.answered()
            return self._exchange(answer)

        try:
            settled = ThreadEngine(self.hosts, draw=lambda: 0.0).run(self._call(asked), send)
        except RequestError as error:
            self._end(seen, error)
        else:
            self._end(seen, settled)

    def _close_in_thread(self) -> None:
        assert self.scenario.close is not None
        self._sleep(round(self.scenario.close * NS))
        self.hosts.close()

    def _sleep(self, ns: int) -> None:
        self.clock.signal().wait(self.clock.now() + ns)

    # ---- both

    def _call(self, asked: Asked) -> Call:
        policy, now = self.hosts.rules.match(asked.host)[1], self.clock.now()
        return Call(
            host=asked.host,
            retry=policy.retry,
            priority=asked.priority,
            cost=asked.cost,
            idempotent=asked.idempotent,
            replayable=asked.replayable,
            deadline=None if asked.deadline is None else now + round(asked.deadline * NS),
            queue_timeout=None if asked.queue_timeout is None else round(asked.queue_timeout * NS),
        )

    def _begin(self, asked: Asked, seen: Seen, slot: Any) -> tuple[Answer, int]:
        answer = asked.gets[min(slot.number, len(asked.gets)) - 1]
        seen.starts.append(self._seconds())
        takes = round(answer.takes * NS)
        left = slot.time_left()
        if left is not None and left < takes:
            return Answer(failure="deadline", sent="maybe"), left
        return answer, takes

    def _exchange(self, answer: Answer) -> Exchange[int]:
        wait = None if answer.retry_after is None else round(answer.retry_after * NS)
        outcome = Outcome(status=answer.status, failure=answer.failure, sent=answer.sent, retry_after=wait)
        error = None if answer.failure is None else RequestError(answer.failure)
        return Exchange(outcome=outcome, value=answer.status, error=error)

    def _end(self, seen: Seen, end: Settled[Any] | BaseException) -> None:
        seen.until = self._seconds()
        if isinstance(end, BaseException):
            seen.ends, seen.error = type(end).__name__, end
            seen.attempts = getattr(end, "attempts", ())
        else:
            what = end.outcome.status if end.outcome.failure is None else end.outcome.failure
            seen.ends = f"{what}" if end.reason == "done" else f"{what} {end.reason}"
            seen.attempts, seen.settled = end.attempts, end

    def _seconds(self) -> float:
        return round((self.clock.now() - self.began) / NS, 3)


def policy(*, attempts: int = 3, **options: Any) -> Policy:
    """Return a policy whose backoff is 1, 2, 4 s exactly and whose gap learns nothing, unless said otherwise."""
    retry = {name: options.pop(name) for name in tuple(options) if name in RETRY}
    rules = Retry(**{"attempts": attempts, "backoff": PLAIN, **retry})
    return Policy(**{"learn": None, "retry": rules, **options})


RETRY = {"backoff", "max_retry_after", "over_cap", "idempotent", "hold_slot", "refusals"}
