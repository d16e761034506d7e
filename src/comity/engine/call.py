"""Call: what the engine has to know of a request, and what it and the transport tell each other about each attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from comity.engine.gate import Gate
from comity.errors import RequestError
from comity.policy.attempt import NO_TIMINGS, Attempt, Timings
from comity.policy.headers import Hints, read_hints
from comity.policy.outcome import Outcome, asks_again
from comity.policy.quotas import Quota
from comity.policy.retry import DONE, CallState, Decision, Retry
from comity.policy.ticket import NOT_STARTED, State, Ticket
from comity.policy.usage import Usage

if TYPE_CHECKING:
    from comity.engine.hedging import Hedging

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Aside:
    """What a request has to wait for before it can be sent, though its turn has come; it holds nothing meanwhile."""

    until: Callable[[], Awaitable[object]]


# Structs, as every request makes one of each.
class Call(msgspec.Struct, kw_only=True, eq=False):
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
        needs: asked when its turn has come; it may name what has to be waited for first.
        part: what of the host it is for, where the caller tells parts apart: a refusal may be that of one of them alone.
        so_far: what it went through before, for a caller who keeps the books of its retries: it is sent once, and that another
            try is to follow, and when, is the result. It holds `idempotent`, `keyed` and `replayable` too.
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
    needs: Callable[[], Aside | None] | None = None
    part: str | None = None
    so_far: CallState | None = None


class Exchange(msgspec.Struct, Generic[T], kw_only=True, eq=False):
    """What one wire attempt came to.

    Args:
        outcome: for the decision.
        value: the answer, when there is one. Beside an error it is the head of an answer whose body is broken.
        error: what to raise when there is no whole answer and nothing follows.
        timings: the phases after the queue.
        race: the sends that the attempt had, when it was hedged and had several.
    """

    outcome: Outcome
    value: T | None = None
    error: RequestError | None = None
    timings: Timings = NO_TIMINGS
    race: Race[T] | None = None


class Race(msgspec.Struct, Generic[T], eq=False):
    """The sends of a hedged attempt.

    Args:
        winner: the one whose end was the attempt's.
        lost: the others, each with what it came to, None when it was cut short.
    """

    winner: Slot
    lost: list[tuple[Slot, Exchange[T] | None]]


class Settled(msgspec.Struct, Generic[T], kw_only=True, eq=False):
    """How a request ended.

    Args:
        value, error, outcome: the last attempt's.
        attempts: all of them.
        reason: "done", or why no further attempt follows.
        until: ns, monotonic; the server wants no request before then, which is longer than this one may wait.
        decision: what follows; RetryAt only for a call that came with `so_far`.
    """

    value: T | None
    error: RequestError | None
    outcome: Outcome
    attempts: tuple[Attempt, ...]
    reason: str
    until: int | None = None
    decision: Decision = DONE


class Slot(msgspec.Struct, eq=False):
    """The right to send once; the transport says what became of it.

    Attributes:
        ticket: what it holds at the gate.
        number: of the attempt, from 1.
        deadline: ns on the engine's clock, or None: the attempt must be over by then; see `time_left`.
        queued, waited: ns in the queue, and from the end of the attempt before (or the call) to this start.
        wall: when it started, ns since the epoch.
        heard: the answer's head was told.
        retry_after: ns that it asks to wait, None when it names no time.
        whole: only the whole answer decides, as the caller has rules for bodies.
        streamed: the head decides whatever it says, as the body is handed out before its end is known.
        hedging: what may be sent beside the attempt when it is late; None for nothing.
        also: told of the first byte too, where it counts elsewhere besides.
        again: the head was decided upon and its answer is not to be handed out: another attempt follows.
        timings: the phases so far of an attempt that was cut short, as far as the transport tells.
    """

    _gate: Gate
    ticket: Ticket
    _decide: Callable[[Outcome], bool]
    number: int
    deadline: int | None
    queued: int
    waited: int
    wall: int
    heard: bool = False
    retry_after: int | None = None
    whole: bool = False
    streamed: bool = False
    again: bool = False
    timings: Timings = NO_TIMINGS
    hedging: Hedging | None = None
    also: Callable[[], None] | None = None

    def time_left(self) -> int | None:
        """Return how long the attempt may still take, ns, by the clock that `deadline` is on; None for no bound."""
        return None if self.deadline is None else self.deadline - self._gate.clock.now()

    @property
    def begun(self) -> bool:
        """Whether `sent` was said, also when what the ticket held has been given back since."""
        return self.ticket.started_at != NOT_STARTED

    def cut_short(self) -> Exchange[Any]:
        """Return what the attempt came to when it was ended from outside."""
        outcome = Outcome(failure="cancelled", sent="maybe" if self.begun else "no")
        return Exchange(outcome=outcome, timings=self.timings)

    def sent(self) -> None:
        """Say, right after it, that the first byte was handed to the socket; saying it again does nothing."""
        if self.ticket.state is State.GRANTED:
            self._gate.started(self.ticket)
            if self.also is not None:
                self.also()

    def answered(self) -> None:
        """Say that the answer began; saying it again does nothing."""
        if self._gate.core.adaptive is not None and self.ticket.answered_at == NOT_STARTED:
            self.ticket.answered_at = self._gate.clock.now()
        if self._gate.core.meters.minds_answers and self.ticket.state is State.STARTED:
            self._gate.answered(self.ticket)

    def hear(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Tell the head of an answer other than 200, as soon as it is there; telling it again does nothing.

        A status that asks for another try is decided upon here: the host learns of a refusal before the body is read,
        and whatever becomes of it.
        """
        if self.heard:
            return
        self.heard = True
        hints = self._hints(status, headers)
        self.retry_after = hints.retry_after
        if hints.quotas:
            self._announce(hints.quotas)
        if self.streamed or (asks_again(status) and not self.whole):
            self.again = self._decide(Outcome(status=status, retry_after=self.retry_after))

    def hint(self, status: int, headers: Iterable[tuple[str, str]]) -> int | None:
        """Return how long an answer of that status asks to wait, ns, None when it names no time."""
        return self._hints(status, headers).retry_after

    def listen(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Search an answer that is none of those for `hear` for what it announces, if this host does such a thing."""
        if self._gate.core.spread.listens() and (quotas := self._hints(status, headers).quotas):
            self._announce(quotas)

    def _hints(self, status: int, headers: Iterable[tuple[str, str]]) -> Hints:
        gate = self._gate
        return read_hints(headers, status=status, wall=gate.clock.wall(), names=gate.core.policy.header_names)

    def _announce(self, quotas: Iterable[Quota]) -> None:
        core = self._gate.core
        self._gate.change(lambda now: core.announced(self.ticket, quotas, now))

    @property
    def usage(self) -> Usage | None:
        """How the answer tells what it really cost."""
        return self._gate.core.usage

    def settle(self, actual: int | Mapping[str, int]) -> None:
        """Correct the reserved cost to what it really was."""
        self._gate.change(lambda now: self._gate.core.settle(self.ticket, actual, now))
