"""Stage: scripted traffic through HostLimiters in virtual time, with what came of it. One loop, no clock, no thread."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from comity.policy.feedback import end_attempt
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import CallState, Retry, RetryAt, decide
from comity.policy.ticket import State, Ticket
from comity.policy.windows import NEVER

MS = 1_000_000
S = 1_000 * MS
OK = Outcome(status=200)


@dataclass(eq=False, kw_only=True)
class Job:
    """One request and how its attempts go.

    Args:
        connect, transit, takes: ns from the grant to the first byte, from there to its arrival, and to the answer.
        answer: what attempt number n, which arrived at `at`, comes to.
    """

    name: str
    ticket: Ticket
    limiter: HostLimiter
    retry: Retry
    connect: int = 0
    transit: int = 0
    takes: int = 0
    patience: int | None = None
    answer: Callable[[int, int], Outcome] = lambda _number, _at: OK
    call: CallState = field(default_factory=lambda: CallState(idempotent=True))
    outcome: Outcome | None = None


@dataclass
class Stage:
    """The traffic and its record."""

    limiters: list[HostLimiter]
    now: int = 0
    starts: list[tuple[int, str]] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    refused: list[tuple[int, str, State]] = field(default_factory=list)
    done: list[tuple[int, str, Outcome]] = field(default_factory=list)
    peak: int = 0
    wakes: int = 0

    def __post_init__(self) -> None:
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0
        self.jobs: dict[Ticket, Job] = {}
        self._wake = dict.fromkeys(self.limiters, NEVER)

    def at(self, when: int, action: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, action))

    def submit(self, when: int, name: str = "", *, priority=5, cost=1, host=0, part=None, retry=None, **how) -> Ticket:
        """Let a request come at `when`."""
        limiter = self.limiters[host]
        ticket = Ticket(priority, limiter.meters.costs(cost), part=part)
        self.jobs[ticket] = Job(name=name, ticket=ticket, limiter=limiter, retry=retry or Retry(attempts=1), **how)
        self.at(when, lambda: self._enqueue(self.jobs[ticket]))
        return ticket

    def cancel(self, when: int, ticket: Ticket) -> None:
        self.at(when, lambda: self.jobs[ticket].limiter.withdraw(ticket, self.now))

    def run(self, until: int = NEVER) -> None:
        """Let everything happen that happens before `until`."""
        while True:
            alarm = min(self._wake.values())
            event = self._events[0][0] if self._events else NEVER
            if min(alarm, event) >= until:
                return
            self.now = max(self.now, min(alarm, event))
            if event <= alarm:
                heapq.heappop(self._events)[2]()
            else:
                self.wakes += 1
            for limiter in self.limiters:
                self._admit(limiter)

    def _admit(self, limiter: HostLimiter) -> None:
        admission = limiter.admit(self.now)
        self._wake[limiter] = admission.wake_at
        assert admission.wake_at > self.now
        self.refused += [(self.now, self.jobs[ticket].name, ticket.state) for ticket in admission.refused]
        for ticket in admission.refused:
            limiter.release(ticket, self.now)
        for ticket in admission.granted:
            job = self.jobs[ticket]
            self.at(self.now + job.connect, lambda job=job: self._start(job))
        self.peak = max(self.peak, limiter.running)

    def _enqueue(self, job: Job) -> None:
        if job.ticket.state is State.WITHDRAWN:
            return
        asked = max(self.now, job.ticket.not_before)
        job.ticket.deadline = NEVER if job.patience is None else asked + job.patience
        job.limiter.enqueue(job.ticket, self.now)

    def _start(self, job: Job) -> None:
        if job.ticket.state is not State.GRANTED:
            return
        job.limiter.started(job.ticket, self.now)
        self.starts.append((self.now, job.name))
        self.at(self.now + job.transit, lambda: self._arrive(job))

    def _arrive(self, job: Job) -> None:
        self.arrivals.append(self.now)
        outcome = job.answer(job.call.attempts + job.call.refusals + 1, self.now)
        self.at(self.now + job.takes - job.transit, lambda: self._end(job, outcome))

    def _end(self, job: Job, outcome: Outcome) -> None:
        if job.ticket.state is not State.STARTED:
            return
        job.limiter.answered(job.ticket, self.now)
        job.call.count(job.retry, outcome)
        decision = decide(job.retry, job.call, outcome, self.now, 0.5)
        again = isinstance(decision, RetryAt)
        end_attempt(job.limiter, job.ticket, outcome, decision, self.now, keep_slot=again and job.retry.hold_slot)
        if again:
            job.ticket.not_before = decision.at
            self._enqueue(job)
        else:
            self.done.append((self.now, job.name, outcome))

    # ---- the record ----------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Who started, in order."""
        return [name for _, name in self.starts]

    @property
    def times(self) -> list[int]:
        """When they started."""
        return [at for at, _ in self.starts]

    @property
    def quiet(self) -> bool:
        """Whether nothing runs and nobody waits."""
        return not any(limiter.running or limiter.queued or limiter.aside for limiter in self.limiters)


def most_in(times: list[int], per: int) -> int:
    """Return how many of `times` fall into the fullest window of `per`, wherever it begins; every window is counted."""
    return max(sum(begin <= time < begin + per for time in times) for begin in times)


def stage(**policy) -> Stage:
    """Return a stage with one host."""
    return Stage([HostLimiter(Policy(**policy), 0)])


def host(**policy) -> HostLimiter:
    return HostLimiter(Policy(**policy), 0)


def come(limiter: HostLimiter, now: int, *, priority: int = 5, cost=1, deadline: int = NEVER, part=None) -> Ticket:
    ticket = Ticket(priority, limiter.meters.costs(cost), deadline, part)
    limiter.enqueue(ticket, now)
    return ticket


def run(limiter: HostLimiter, now: int, **how) -> Ticket:
    """Return a ticket that starts at `now`."""
    ticket = come(limiter, now, **how)
    assert limiter.admit(now).granted == [ticket]
    limiter.started(ticket, now)
    return ticket
