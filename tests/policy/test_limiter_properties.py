"""HostLimiter against a naive checker: whatever happens, it forbids what the rules forbid and nothing else."""

from __future__ import annotations

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.ticket import State, Ticket
from comity.policy.windows import NEVER
from tests.policy.naive import FOREVER, Limit, Naive, Request

MS = 1_000_000
NAMES = {State.EXPIRED: "EXPIRED", State.BLOCKED: "BLOCKED"}
GRAINS = 4096

measured = st.sampled_from(["client", "server"])
rates = st.one_of(
    st.builds(Rate, st.integers(1, 6), st.sampled_from([0.01, 0.05, 1.0]), measured=measured),
    st.builds(Rate, st.integers(1, 6), st.sampled_from([0.01, 0.05, 1.0]), measured=measured, kind=st.just("fixed")),
    st.builds(Rate, st.integers(1, 7), st.sampled_from([0.01, 0.05, 1.0]), measured=measured, spread=st.just(True)),
    st.builds(Rate, st.integers(1, 7), st.just(0.05), measured=measured, burst=st.integers(1, 5)),
)
budgets = st.one_of(
    st.builds(Rate, st.integers(10, 30), st.just(0.05), unit=st.just("tokens"), measured=measured),
    st.builds(Rate, st.integers(10, 30), st.just(0.05), unit=st.just("tokens"), kind=st.just("fixed")),
    st.builds(Rate, st.integers(10, 30), st.just(0.05), unit=st.just("tokens"), burst=st.integers(10, 20)),
    st.builds(Rate, st.integers(10, 30), st.just(0.05), unit=st.just("tokens"), spread=st.just(True)),
    st.builds(Rate, st.integers(100_001, 300_000), st.just(0.05), unit=st.just("tokens"), measured=measured),
)
policies = st.builds(
    Policy,
    rate=st.tuples(st.lists(rates, max_size=2), st.lists(budgets, max_size=1)).map(lambda both: both[0] + both[1]),
    concurrency=st.sampled_from([1, 2, 3, 5, None]),
    ageing=st.sampled_from([0.01, 60.0, None]),
    min_gap=st.sampled_from([None, None, 0.005]),
    learn=st.sampled_from(["gap", None]),
)
steps = st.one_of(
    st.sampled_from([1, 1, 2, MS - 1, MS, 3 * MS, 10 * MS, 50 * MS, 1_000 * MS, 3_600_000 * MS]),
    st.integers(1, 60 * MS),
)


def limits_of(policy: Policy, now: int) -> list[Limit]:
    """Return the limits that the options promise, in the order in which costs are given."""
    found = []
    for rate in policy.rate:
        common = {"most": rate.max, "per": rate.per_ns, "unit": rate.unit, "server": rate.measured == "server"}
        if rate.burst is not None:
            found.append(Limit(kind="bucket", bucket=rate.burst, **common))
        elif rate.kind == "fixed":
            found.append(Limit(kind="fixed", anchor=now, **common))
        else:
            found.append(Limit(kind="sliding", slack=rate.per_ns // GRAINS if rate.max > 100_000 else 0, **common))
        if rate.spread:
            found.append(Limit(kind="spacing", **{**common, "server": False}))
    return found


class Traffic(RuleBasedStateMachine):
    """Random arrivals, ends, cancellations and steps of time; after each of them one step of the gate."""

    @initialize(policy=policies, now=st.sampled_from([0, 1, 10**18]))
    def begin(self, policy: Policy, now: int) -> None:
        self.now = now
        self.core = HostLimiter(policy, now)
        self.naive = Naive(
            limits_of(policy, now),
            concurrency=policy.concurrency,
            ageing=1 << 70 if policy.ageing_ns is None else policy.ageing_ns,
            gap=policy.min_gap_ns,
            learns=policy.learns_gap,
        )
        self.tickets: dict[Ticket, Request] = {}
        self.due: set[Request] = set()
        """Who must be refused in the next step."""
        self.short = 0
        """How many run that came the short way."""
        self.wake_at = NEVER
        self.vague = False
        """An overdraft that came late: a bucket counts it in full, the rules might not."""

    # ---- what happens --------------------------------------------------------------------------

    @rule(step=steps)
    def time_passes(self, step: int) -> None:
        self.now += step
        self.admit()

    @precondition(lambda self: self.now < self.wake_at < NEVER)
    @rule(early=st.sampled_from([0, 0, 0, 1]))
    def the_alarm_goes_off(self, early: int) -> None:
        self.now = max(self.now, self.wake_at - early)
        self.admit()

    @rule(
        priority=st.integers(0, 9),
        patience=st.none() | st.integers(0, 100 * MS),
        requests=st.integers(0, 3),
        tokens=st.sampled_from([0, 1, 3, 10, 50_000]),
        together=st.integers(1, 4),
    )
    def some_arrive(self, priority: int, patience: int | None, requests: int, tokens: int, together: int) -> None:
        costs = []
        for limit in self.naive.limits:
            most = limit.bucket or limit.most
            costs.append(min(most, tokens if limit.unit == "tokens" else requests))
        smallest = {}
        for limit, cost in zip(self.naive.limits, costs, strict=True):
            smallest[limit.unit] = min(cost, smallest.get(limit.unit, cost))
        costs = [smallest[limit.unit] for limit in self.naive.limits]
        for _ in range(together):
            deadline = FOREVER if patience is None else self.now + patience
            ticket = Ticket(priority, self.core.meters.costs({"requests": 1, **smallest}), min(deadline, NEVER))
            assert list(ticket.costs) == costs
            request = Request(
                number=len(self.tickets), priority=priority, costs=costs, since=self.now, deadline=deadline
            )
            self.tickets[ticket] = request
            self.naive.requests.append(request)
            self.enqueue(ticket)
        self.admit()

    @precondition(lambda self: self.core.quick is not None)
    @rule()
    def one_takes_the_short_way(self) -> None:
        costs = list(self.core.meters.ordinary)
        request = Request(number=-1, priority=5, costs=costs, since=self.now)
        free = self.naive.head() is None and self.naive.slot_free(request) and self.naive.allowed(request, self.now)
        assert self.core.take(self.now) is free
        if free:
            self.naive.requests.append(request)
            self.naive.grant(request)
            self.naive.start(request, self.now)
            self.short += 1
        self.admit()

    @precondition(lambda self: self.short)
    @rule()
    def one_that_came_the_short_way_ends(self) -> None:
        request = next(each for each in self.naive.having("started") if each.number == -1)
        self.core.give_back(self.now)
        self.naive.end(request, self.now)
        self.short -= 1
        self.admit()

    @precondition(lambda self: self.some("granted"))
    @rule(data=st.data())
    def one_starts(self, data: st.DataObject) -> None:
        ticket, request = self.pick(data, "granted")
        self.core.started(ticket, self.now)
        self.core.started(ticket, self.now + 1)
        self.naive.start(request, self.now)
        self.admit()

    @precondition(lambda self: self.some("started"))
    @rule(data=st.data())
    def one_is_answered(self, data: st.DataObject) -> None:
        ticket, request = self.pick(data, "started")
        self.core.answered(ticket, self.now)
        self.core.answered(ticket, self.now + 1)
        self.naive.answer(request, self.now)
        self.admit()

    @precondition(lambda self: self.some("started", "answered"))
    @rule(data=st.data(), well=st.booleans(), keep=st.booleans())
    def one_ends(self, data: st.DataObject, well: bool, keep: bool) -> None:
        ticket, request = self.pick(data, "started", "answered")
        self.core.release(ticket, self.now, keep_slot=keep and not well)
        self.naive.end(request, self.now, keep=keep and not well)
        if well:
            self.core.succeeded(ticket)
            self.naive.succeeded(request)
        else:
            self.core.failed()
            self.naive.failed()
        self.admit()

    @precondition(lambda self: self.some("started", "answered"))
    @rule(
        data=st.data(),
        wait=st.integers(0, 100 * MS),
        rate=st.booleans(),
        hinted=st.booleans(),
        block=st.sampled_from([False, False, False, True]),
        keep=st.booleans(),
    )
    def one_is_refused(self, data: st.DataObject, wait: int, rate: bool, hinted: bool, block: bool, keep: bool) -> None:
        ticket, request = self.pick(data, "started", "answered")
        hinted = hinted or block
        self.core.release(ticket, self.now, keep_slot=keep)
        self.naive.end(request, self.now, keep=keep)
        until = self.now + wait
        new = request.started_at >= self.naive.until
        self.due.update(self.naive.refused(request, self.now, until, rate=rate, hinted=hinted, block=block))
        assert self.core.refuse_until(ticket, self.now, until, refused=rate, hinted=hinted, block=block) is new
        self.admit()

    @precondition(lambda self: self.some("resting", "over"))
    @rule(data=st.data(), patience=st.none() | st.integers(0, 100 * MS), backoff=st.just(0) | st.integers(0, 50 * MS))
    def one_tries_again(self, data: st.DataObject, patience: int | None, backoff: int) -> None:
        ticket, request = self.pick(data, "resting", "over")
        request.not_before = ticket.not_before = self.now + backoff if backoff else 0
        request.deadline = FOREVER if patience is None else self.now + patience
        ticket.deadline = min(request.deadline, NEVER)
        self.enqueue(ticket)
        self.admit()

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def one_is_cancelled(self, data: st.DataObject) -> None:
        ticket, request = self.pick(data, "waiting", "granted", "started", "answered", "resting", "over", "new")
        queued = self.core.queued + self.core.aside
        self.core.withdraw(ticket, self.now)
        assert self.core.queued + self.core.aside == queued - (request.state == "waiting"), "gone at once"
        self.naive.end(request, self.now)
        self.admit()

    @precondition(lambda self: self.some("started", "answered", "resting", "over", "waiting"))
    @rule(data=st.data(), requests=st.none() | st.integers(0, 4), tokens=st.none() | st.integers(0, 40))
    def one_is_settled(self, data: st.DataObject, requests: int | None, tokens: int | None) -> None:
        ticket, request = self.pick(data, "started", "answered", "resting", "over", "waiting")
        actual = {"requests": requests, "tokens": tokens}
        units = {limit.unit for limit in self.naive.limits}
        actual = {unit: real for unit, real in actual.items() if real is not None and unit in units}
        self.core.settle(ticket, actual, self.now)
        if request.started_at < 0:
            return
        for place, limit in enumerate(self.naive.limits):
            if limit.unit in actual:
                entry = request.entries[place]
                more = entry is not None and actual[limit.unit] > entry.cost
                self.vague |= more and (limit.kind == "bucket" or limit.slack > 0)
                self.naive.settle(request, place, actual[limit.unit], self.now)
        self.admit()

    # ---- what must hold ------------------------------------------------------------------------

    def admit(self) -> None:
        """One step of the gate, held against the rules."""
        late = self.naive.expire(self.now)
        self.naive.ripen(self.now)
        admission = self.core.admit(self.now)
        refused = {self.tickets[ticket]: ticket.state for ticket in admission.refused}
        assert refused == {
            **dict.fromkeys(late, State.EXPIRED),
            **dict.fromkeys(self.due, State.BLOCKED),
        }
        self.due.clear()
        for ticket in admission.granted:
            request = self.tickets[ticket]
            head = self.naive.head()
            assert request is head, "not the head of the queue"
            assert self.naive.slot_free(request), "over the cap"
            assert self.vague or self.naive.allowed(request, self.now), "over a limit"
            self.naive.grant(request)
        self.wake_at = admission.wake_at
        ripe = [request.not_before for request in self.naive.aside()]
        deadline = min([*ripe, *(request.deadline for request in self.naive.having("waiting"))], default=FOREVER)
        head = self.naive.head()
        if head is None or not self.naive.slot_free(head):
            assert self.wake_at == min(NEVER, deadline), "an alarm for nothing"
        elif not self.vague:
            exact, latest = (min(deadline, self.naive.earliest(head, self.now, slack)) for slack in (0, 1))
            assert exact <= self.wake_at <= latest, "the alarm is early or late"
            assert latest > self.now, "withheld what the rules allow"

    @invariant()
    def the_counts_are_right(self) -> None:
        if hasattr(self, "core"):
            flying = self.naive.having("granted", "started", "answered")
            keeping = [request for request in self.naive.having("waiting", "resting") if request.holds]
            assert self.core.running == len(flying) + len(keeping)
            assert self.core.aside == len(self.naive.aside())
            assert self.core.queued == len(self.naive.having("waiting")) - self.core.aside

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        for ticket in self.tickets:
            self.core.withdraw(ticket, self.now)
        for _ in range(self.short):
            self.core.give_back(self.now)
        assert self.core.admit(self.now).granted == []
        assert (self.core.running, self.core.queued, self.core.aside) == (0, 0, 0)
        self.core.gap.learned = 0
        assert self.core.idle(self.now + 10**15), "something is still taken"

    # ---- helpers -------------------------------------------------------------------------------

    def some(self, *states: str) -> bool:
        return any(request.state in states for request in self.tickets.values())

    def pick(self, data: st.DataObject, *states: str) -> tuple[Ticket, Request]:
        return data.draw(st.sampled_from([pair for pair in self.tickets.items() if pair[1].state in states]))

    def enqueue(self, ticket: Ticket) -> None:
        request = self.tickets[ticket]
        self.core.enqueue(ticket, self.now)
        self.naive.enqueue(request, self.now)
        if request.state != "waiting":
            self.due.add(request)


Traffic.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTraffic = Traffic.TestCase
