"""Call: the life of one request, written once for tasks and for threads.

`converse` is a generator that decides and keeps the books; a driver (`async_engine`, `thread_engine`) does what it
yields: a Ticket means "wait until it is decided", an int "sleep until then", a Slot "send once and tell me the Exchange".
It is the only place where a request is tried again, and whatever it holds is given back in one place, its `finally`,
whether the driver ends, fails or is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from comity.engine.gate import Gate
from comity.engine.observer import Observe
from comity.engine.refusal import refusal
from comity.errors import QueueFull, RequestError
from comity.policy.attempt import NO_TIMINGS, Attempt, Timings
from comity.policy.events import Event, EventType
from comity.policy.feedback import end_attempt
from comity.policy.outcome import Outcome
from comity.policy.retry import CallState, Decision, Done, GiveUp, Retry, RetryAt, decide
from comity.policy.ticket import State, Ticket
from comity.policy.windows import NEVER

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Call:
    """One request, as far as the engine has to know it.

    Args:
        host: which limiter; see `Hosts`.
        retry: when to try again.
        request: what errors carry as `.request`.
        priority: 0 (first) to 9.
        cost: in requests, or by budget.
        idempotent: repeating it is harmless.
        keyed: it carries an Idempotency-Key.
        replayable: its body can be sent again.
        deadline: ns, monotonic; everything ends by then, waiting included.
        queue_timeout: ns that one wait for a turn may take.
    """

    host: str
    retry: Retry
    request: Any = None
    priority: int = 5
    cost: int | Mapping[str, int] = 1
    idempotent: bool = False
    keyed: bool = False
    replayable: bool = True
    deadline: int | None = None
    queue_timeout: int | None = None


@dataclass(slots=True, kw_only=True)
class Exchange(Generic[T]):
    """What one wire attempt came to.

    Args:
        outcome: for the decision.
        value: the answer, when there is one.
        error: what to raise when there is none and nothing follows.
        timings: the phases after the queue.
    """

    outcome: Outcome
    value: T | None = None
    error: RequestError | None = None
    timings: Timings = NO_TIMINGS


@dataclass(slots=True, kw_only=True)
class Settled(Generic[T]):
    """How a request ended.

    Args:
        value, error, outcome: the last attempt's.
        attempts: all of them.
        reason: "done", or why no further attempt follows.
        until: ns, monotonic; the server wants no request before then, which is longer than this one may wait.
    """

    value: T | None
    error: RequestError | None
    outcome: Outcome
    attempts: tuple[Attempt, ...]
    reason: str
    until: int | None = None


class Slot:
    """The right to send once; the transport says what became of it.

    Attributes:
        number: of the attempt, from 1.
        deadline: ns, monotonic, or None: the attempt must be over by then.
    """

    __slots__ = ("_gate", "_ticket", "deadline", "number")

    def __init__(self, gate: Gate, ticket: Ticket, number: int, deadline: int | None) -> None:
        self._gate, self._ticket = gate, ticket
        self.number, self.deadline = number, deadline

    def sent(self) -> None:
        """Say, right after it, that the first byte was handed to the socket; saying it again does nothing."""
        if self._ticket.state is State.GRANTED:
            self._gate.started(self._ticket)

    def answered(self) -> None:
        """Say that the answer began; saying it again does nothing."""
        if self._gate.core.minds_answers and self._ticket.state is State.STARTED:
            self._gate.answered(self._ticket)

    def settle(self, actual: int | Mapping[str, int]) -> None:
        """Correct the reserved cost to what it really was."""
        self._gate.change(lambda now: self._gate.core.settle(self._ticket, actual, now))


Conversation = Generator["Ticket | int | Slot", "Exchange[T] | None", "Settled[T]"]


def converse(
    call: Call,
    gate: Gate,
    enter: Callable[[Ticket], bool],
    draw: Callable[[], float],
    observe: Observe | None = None,
) -> Conversation[T]:
    """Yield what to do for `call` until it is settled.

    Args:
        call: the request.
        gate: its host's.
        enter: `gate.enter_loop` or `gate.enter_thread`.
        draw: a random number in [0, 1).
        observe: is told every step.

    Raises:
        HostBlocked, QueueFull, QueueTimeout, ClientClosed, TimedOut: the turn did not come; nothing (more) was sent.
        OptionsError: the cost cannot be, or a backoff function returned something else than seconds.
    """
    clock = gate.clock
    tell = _teller(gate, observe)
    began = ended = clock.now()
    state = CallState(
        idempotent=call.idempotent,
        keyed=call.keyed,
        replayable=call.replayable,
        deadline=call.deadline,
        started=began,
    )
    record: list[Attempt] = []
    ticket = Ticket(call.priority, gate.core.costs(call.cost))
    try:
        while True:
            asked = clock.now()
            ticket.deadline = _patience(call, asked)
            number = len(record) + 1
            if not _entered(enter, ticket, call, record):
                if tell:
                    tell("queued", number=number)
                yield ticket
            if ticket.state is not State.GRANTED:
                raise refusal(
                    ticket,
                    gate,
                    asked=asked,
                    began=began,
                    deadline=call.deadline,
                    request=call.request,
                    attempts=record,
                )
            granted, wall = clock.now(), clock.wall()
            if tell:
                tell("started", number=number, wait=(granted - ended) / 1e9)
            exchange = yield Slot(gate, ticket, number, call.deadline)
            assert exchange is not None
            outcome, now = exchange.outcome, clock.now()
            state = _counted(state, call.retry, outcome)
            decision = decide(call.retry, state, outcome, now, draw())
            times = {"wall": wall, "waited": granted - ended, "queue": granted - asked}
            attempt = _attempt(number, exchange, decision, **times)
            record.append(attempt)
            new_episode = _end(gate, ticket, number, outcome, decision, hold_slot=call.retry.hold_slot)
            if tell:
                _report(tell, attempt, decision, now, new_episode)
            if not isinstance(decision, RetryAt):
                return _settled(exchange, record, decision)
            ended = now
            if decision.at > max(now, gate.core.hold):
                yield decision.at
    finally:
        if ticket.state is not State.DONE or ticket.holds_slot:
            gate.withdraw(ticket)


Tell = Callable[..., None]


def _teller(gate: Gate, observe: Observe | None) -> Tell | None:
    if observe is None:
        return None

    def tell(kind: EventType, **more: Any) -> None:
        observe(Event(type=kind, host=gate.core.name, at=gate.clock.wall() / 1e9, **more))

    return tell


def _report(tell: Tell, attempt: Attempt, decision: Decision, now: int, new_episode: bool) -> None:
    """Tell what an attempt came to and what follows."""
    tell("finished", number=attempt.number, status=attempt.status, error=attempt.error, reason=attempt.decision)
    if isinstance(decision, GiveUp) and decision.block is not None:
        tell("blocked", number=attempt.number, status=attempt.status, wait=(decision.block - now) / 1e9)
    elif new_episode:
        pause = 0 if isinstance(decision, Done) or decision.pause is None else decision.pause - now
        tell("paused", number=attempt.number, status=attempt.status, wait=pause / 1e9)
    if isinstance(decision, RetryAt):
        tell("retrying", number=attempt.number + 1, wait=(decision.at - now) / 1e9, reason=decision.reason)
    elif isinstance(decision, GiveUp):
        tell("failed", number=attempt.number, status=attempt.status, error=attempt.error, reason=decision.reason)


def _end(gate: Gate, ticket: Ticket, number: int, outcome: Outcome, decision: Decision, *, hold_slot: bool) -> bool:
    """Give back, count and learn in one step of the gate; return whether an episode of refusals began."""
    new = False

    def step(now: int) -> None:
        nonlocal new
        keep = hold_slot and isinstance(decision, RetryAt)
        new = end_attempt(gate.core, ticket, outcome, decision, now, keep_slot=keep)
        gate.tally.count(number, outcome)

    gate.change(step)
    return new


def _counted(state: CallState, retry: Retry, outcome: Outcome) -> CallState:
    """Count one more send; a refusal is counted apart, unless `refusals=0`."""
    if outcome.refused and retry.refusals:
        return replace(state, refusals=state.refusals + 1, refusals_in_a_row=state.refusals_in_a_row + 1)
    return replace(state, attempts=state.attempts + 1, refusals_in_a_row=0)


def _patience(call: Call, now: int) -> int:
    """Return until when to wait for a turn, ns."""
    queue = NEVER if call.queue_timeout is None else now + call.queue_timeout
    return queue if call.deadline is None else min(queue, call.deadline)


def _entered(enter: Callable[[Ticket], bool], ticket: Ticket, call: Call, record: list[Attempt]) -> bool:
    try:
        return enter(ticket)
    except QueueFull as full:
        raise QueueFull(str(full), request=call.request, attempts=record) from None


def _attempt(
    number: int, exchange: Exchange[Any], decision: Decision, *, wall: int, waited: int, queue: int
) -> Attempt:
    outcome = exchange.outcome
    return Attempt(
        number=number,
        started_at=wall / 1e9,
        waited=waited / 1e9,
        status=outcome.status,
        error=None if exchange.error is None else f"{type(exchange.error).__name__}: {exchange.error}",
        sent=outcome.sent,
        timings=replace(exchange.timings, queue=queue / 1e9),
        retry_after=None if outcome.retry_after is None else outcome.retry_after / 1e9,
        decision=_word(decision),
    )


def _word(decision: Decision) -> str:
    if isinstance(decision, RetryAt):
        return "retry"
    return decision.reason if isinstance(decision, GiveUp) else "done"


def _settled(exchange: Exchange[T], record: list[Attempt], decision: Decision) -> Settled[T]:
    until = decision.until if isinstance(decision, GiveUp) else None
    return Settled(
        value=exchange.value,
        error=exchange.error,
        outcome=exchange.outcome,
        attempts=tuple(record),
        reason=_word(decision),
        until=until,
    )
