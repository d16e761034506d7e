"""Conversation: the life of one request, written once for tasks and for threads.

`converse` is a generator that decides and keeps the books; a driver (`async_engine`, `thread_engine`) does what it
yields: a Ticket means "wait until it is decided", a Slot "send once and tell me the Exchange", an Aside "wait for that".
What goes wrong meanwhile, a cancellation above all, the driver throws into it. This is the only place where a request is
tried again, and whatever it holds is given back in one place, the `finally`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from comity.engine.call import Aside, Call, Exchange, Race, Settled, Slot
from comity.engine.gate import Gate
from comity.engine.hedging import Hedging
from comity.engine.observer import Observe, Reporter
from comity.engine.refusal import refusal
from comity.errors import QueueFull, RequestError
from comity.policy.attempt import Attempt
from comity.policy.feedback import end_attempt, end_heard, learn
from comity.policy.outcome import Outcome
from comity.policy.retry import DONE, CallState, Decision, Done, GiveUp, RetryAt, decide
from comity.policy.ticket import State, Ticket
from comity.policy.windows import NEVER

T = TypeVar("T")

SUPERSEDED = "superseded"
"""What follows a send of a hedged attempt that another one was quicker than."""

Conversation = Generator["Ticket | Slot | Aside", "Exchange[T] | None", "Settled[T]"]


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
        gate: its host's, from `Hosts.gate`; it is left at the end.
        enter: `gate.enter_loop` or `gate.enter_thread`.
        draw: a random number in [0, 1).
        observe: is told every step.

    Raises:
        HostBlocked, QueueFull, QueueTimeout, ClientClosed, TimedOut: the turn did not come; nothing (more) was sent.
        OptionsError: the cost cannot be, or a backoff function returned something else than seconds.
    """
    life = _Life(call, gate, draw, gate.clock.now(), observe)
    change = gate.change
    try:
        while True:
            if not life.enter(enter):
                yield life.ticket
            if call.needs is not None and (aside := life.step_aside()) is not None:
                yield aside
                continue
            exchange = yield life.start()
            assert exchange is not None
            decision = life.judge(exchange)
            if call.so_far is not None or not isinstance(decision, RetryAt):
                return life.settled(exchange, decision)  # the `finally` ends the attempt: one step of the gate for both
            change(life.end)
            life.tell()
            life.ticket.not_before = decision.at
    except GeneratorExit:  # nobody drives it any more: a forgotten coroutine is being destroyed
        change = gate.change_unwaiting
        raise
    except BaseException as error:
        life.report_failure(error)
        raise
    finally:
        change(life.leave)
        life.tell()


class _Life:
    """The books of one call."""

    __slots__ = (
        "_began", "_decided", "_draw", "_ended", "_entered", "_heard", "_judged", "_news", "_observe", "_reporter", "_sending",
        "_slot", "_started", "_superseded", "attempts", "call", "gate", "state", "ticket",
    )  # fmt: skip

    def __init__(self, call: Call, gate: Gate, draw: Callable[[], float], now: int, observe: Observe | None) -> None:
        self.call, self.gate, self._draw, self._observe = call, gate, draw, observe
        self._reporter = None if observe is None else Reporter(observe, gate.core.name, gate.clock)
        self._began = self._entered = self._started = self._ended = now
        self._slot: Slot | None = None
        self._decided = self._sending = self._superseded = False
        self._heard: _Heard | None = None
        self._judged: tuple[Outcome, Decision] | None = None
        self._news: Sequence[Callable[[], None]] = ()
        self.ticket = Ticket(call.priority, (), part=call.part)
        self.attempts: list[Attempt] = []
        self.state = call.so_far or CallState(
            idempotent=call.idempotent,
            keyed=call.keyed,
            replayable=call.replayable,
            deadline=call.deadline,
            started=now,
        )

    def enter(self, enter: Callable[[Ticket], bool]) -> bool:
        """Ask for a turn; return whether it is decided already."""
        call, ticket = self.call, self.ticket
        if ticket.state is State.NEW:
            asked = self._began
            ticket.costs = self.gate.core.meters.costs(call.cost)
        else:
            asked = max(self.gate.clock.now(), ticket.not_before)
        self._entered = asked
        patience = NEVER if call.queue_timeout is None else asked + call.queue_timeout
        ticket.deadline = patience if call.deadline is None else min(patience, call.deadline)
        try:
            self._decided = decided = enter(ticket)
        except QueueFull as full:
            raise QueueFull(str(full), request=call.request, attempts=self.attempts) from None
        if self._reporter is not None and not decided and not ticket.not_before:
            self._reporter.queued(len(self.attempts) + 1)
        return decided

    def start(self) -> Slot:
        """Return the right to send once.

        Raises:
            HostBlocked, QueueTimeout, ClientClosed, TimedOut: the ticket was refused.
        """
        call, gate, ticket = self.call, self.gate, self.ticket
        if ticket.state is not State.GRANTED:
            raise refusal(
                ticket,
                gate,
                asked=self._entered,
                began=self._began,
                deadline=call.deadline,
                request=call.request,
                attempts=self.attempts,
            )
        self._sending, self._heard = True, None
        self._started = started = self._entered if self._decided else gate.clock.now()
        wall = gate.clock.wall()
        number, waited = len(self.attempts) + 1, started - self._ended
        if self._reporter is not None:
            self._reporter.started(number, waited=waited)
        slot = Slot(gate, ticket, self._hear, number, call.deadline, started - self._entered, waited, wall)
        if gate.core.latencies is not None and call.replayable and (call.idempotent or call.keyed):
            slot.hedging = Hedging(gate, call, self._draw, self._observe)
        self._slot = slot
        return slot

    def step_aside(self) -> Aside | None:
        """Ask what the request needs before it is sent; if there is such a thing, give its turn back."""
        call, ticket = self.call, self.ticket
        aside = call.needs() if call.needs is not None and ticket.state is State.GRANTED else None
        if aside is not None:
            self.gate.change(lambda now: self.gate.core.release(ticket, now))
        return aside

    def judge(self, exchange: Exchange[Any]) -> Decision:
        """Decide what follows an attempt, unless its head did; `end` or `leave` has to follow."""
        assert self._slot is not None
        slot, race, now = self._slot, exchange.race, self.gate.clock.now()
        self._sending = False
        if race is not None:
            slot = self._settle_race(race, now)
        heard = self._heard
        if heard is None:
            outcome, decision = exchange.outcome, self._decide(exchange.outcome, now)
        elif heard.error is not None:
            raise heard.error
        else:
            assert heard.decision is not None
            outcome = exchange.outcome = heard.outcome
            decision = heard.decision
        self.attempts.append(_attempt(slot, exchange, _word(decision)))
        self._judged, self._ended = (outcome, decision), now
        return decision

    def end(self, now: int) -> None:
        """Give back, count and learn from the attempt that was judged; a step of the gate."""
        assert self._judged is not None
        (outcome, decision), self._judged = self._judged, None
        gate, heard, attempt = self.gate, self._heard, self.attempts[-1]
        keep_slot = self.call.retry.hold_slot and isinstance(decision, RetryAt)
        if self._superseded:  # what was sent beside it has ended, counted and learned for itself
            gate.core.release(self.ticket, now)
            assert self._slot is not None
            gate.tally.cut_short(self._slot.number, sent=True)
            new_episode = False
        elif heard is None:
            new_episode = end_attempt(gate.core, self.ticket, outcome, decision, now, keep_slot=keep_slot)
        else:
            end_heard(gate.core, self.ticket, now, whole=attempt.error is None, keep_slot=keep_slot)
            new_episode = heard.new_episode
        if not self._superseded:
            gate.tally.count(attempt.number, outcome)
        if self._reporter is not None:
            told = partial(self._reporter.ended, attempt, decision, self._ended, new_episode=new_episode)
            changed = gate.changes.since(gate.core, now)
            self._news = (told, partial(self._reporter.changed, changed)) if changed else (told,)

    def tell(self) -> None:
        """Tell who observes what the last step of the gate came to, now that nobody waits for its lock."""
        news, self._news = self._news, ()
        for tell in news:
            tell()

    def settled(self, exchange: Exchange[T], decision: Decision) -> Settled[T]:
        """Return how the call ended."""
        return Settled(
            value=exchange.value,
            error=exchange.error,
            outcome=exchange.outcome,
            attempts=tuple(self.attempts),
            reason=_word(decision),
            until=decision.until if isinstance(decision, GiveUp) else None,
            decision=decision,
        )

    def report_failure(self, error: BaseException) -> None:
        """Tell that the call ends with an error of its own instead of an attempt's outcome."""
        if isinstance(error, RequestError) and not error.attempts:
            error.attempts = tuple(self.attempts)
        if self._reporter is not None:
            self._reporter.failed(len(self.attempts) + self._sending, error)

    def leave(self, now: int) -> None:
        """Give back whatever the call still holds; a step of the gate."""
        ticket, gate = self.ticket, self.gate
        if self._judged is not None:
            self.end(now)
        gate.calls -= 1
        if self._sending:
            gate.tally.cut_short(len(self.attempts) + 1, sent=ticket.state is not State.GRANTED)
        if ticket.state is not State.DONE or ticket.holds_slot:
            gate.withdraw(ticket, now)

    def _decide(self, outcome: Outcome, now: int) -> Decision:
        self.state.count(self.call.retry, outcome)
        decision = decide(self.call.retry, self.state, outcome, now, self._draw())
        budget = self.gate.core.budget
        if budget is None or outcome.refused or not isinstance(decision, RetryAt):
            return decision
        with self.gate.lock:
            return budget.charge(decision, now, self._draw(), deadline=self.call.deadline)

    def _hear(self, outcome: Outcome) -> bool:
        """Decide by the head of an answer, while its body is still on the way; the host learns of it at once.

        Returns:
            Whether the answer is not the last: another attempt follows, or an error of a caller's function.
        """
        gate, ticket = self.gate, self.ticket
        heard = self._heard = _Heard(outcome)
        try:
            decision = heard.decision = self._decide(outcome, gate.clock.now())
        except Exception as error:  # noqa: BLE001 - a caller's backoff function failed; `judge` raises it, not the wire
            heard.error = error
            return True

        def hear(now: int) -> None:
            gate.core.started(ticket, now)
            heard.new_episode = learn(gate.core, ticket, outcome, decision, now)

        gate.change(hear)
        return isinstance(decision, RetryAt)

    def _settle_race(self, race: Race[Any], now: int) -> Slot:
        """Note the sends that lost, and return the one that won."""
        if race.winner is not self._slot:
            self._superseded, self._heard = True, None
        for slot, exchange in race.lost:
            attempt = _attempt(slot, exchange, SUPERSEDED)
            self.attempts.append(attempt)
            if self._reporter is not None:
                self._reporter.ended(attempt, DONE, now, new_episode=False)
        return race.winner


@dataclass(slots=True)
class _Heard:
    """What the head of an answer decided: an outcome, and a decision or the error of a caller's function."""

    outcome: Outcome
    decision: Decision | None = None
    error: Exception | None = None
    new_episode: bool = False


def _attempt(slot: Slot, exchange: Exchange[Any] | None, word: str) -> Attempt:
    """Return what a send looked like; one that was cut short came to nothing."""
    if exchange is None:
        exchange = slot.cut_short()
    outcome, error = exchange.outcome, exchange.error
    return Attempt(
        number=slot.number,
        started_at=slot.wall / 1e9,
        waited=slot.waited / 1e9,
        status=outcome.status,
        error=None if error is None else f"{type(error).__name__}: {error}",
        sent=outcome.sent,
        timings=exchange.timings.queued_for(slot.queued / 1e9),
        retry_after=None if outcome.retry_after is None else outcome.retry_after / 1e9,
        decision=word,
    )


def _word(decision: Decision) -> str:
    if isinstance(decision, Done):
        return "done"
    if isinstance(decision, RetryAt):
        return "retry"
    return decision.reason
