"""HostLimiter.grant_at_once: the short way through the gate decides what the long one would."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.ticket import State, Ticket
from comity.policy.turns import Turns
from comity.policy.units import seconds
from comity.policy.windows import NEVER

NOW = seconds(1_000)
MIXED = Policy(concurrency=3, rate=["4/s", Rate(9, 3, kind="fixed"), "20 tokens/2s"], min_gap=0.01)
PLAIN = Policy(concurrency=3, rate=["4/s", "3/500ms", "9/3s"], learn=None)

steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "start", "release", "pause", "block", "other", "close"]),
        st.integers(0, 400_000_000),
        st.integers(0, 6),
    ),
    max_size=40,
)


class World:
    """A limiter under a bound that another host shares, driven by `steps`."""

    def __init__(self, policy, costs, short_way):
        self.short_way, self.now = short_way, NOW
        self.turns = Turns(4)
        self.costs = costs
        self.gate = HostLimiter(policy, NOW, turns=self.turns, name="a")
        self.other = HostLimiter(Policy(), NOW, turns=self.turns, name="b")
        self.tickets = []

    def step(self, what, later, which):
        self.now += later
        gate, now = self.gate, self.now
        if what == "ask":
            deadline = NEVER if which % 3 else now + seconds(which / 10)
            ticket = Ticket(which, gate.meters.costs(self.costs[which]), deadline)
            self.tickets.append(ticket)
            if not (self.short_way and gate.grant_at_once(ticket, now)):
                gate.enqueue(ticket, now)
        elif what == "other":
            ticket = Ticket(5, ())
            self.other.enqueue(ticket, now)
            self.other.admit(now)
        elif what == "close":
            if which == 0:
                gate.close()
        elif self.tickets:
            ticket = self.tickets[which % len(self.tickets)]
            if what == "start":
                gate.started(ticket, now)
            elif what == "release":
                gate.withdraw(ticket, now)
            elif ticket.state is State.STARTED:
                gate.refuse_until(ticket, now, now + seconds(0.5), refused=True, hinted=True, block=what == "block")
        gate.admit(now)

    def state(self):
        gate = self.gate
        times = tuple(gate.earliest(self.now, gate.meters.costs(cost)) for cost in self.costs)
        return gate.running, gate.queued, self.turns.free, list(self.turns.line), times, [t.state for t in self.tickets]


@pytest.mark.parametrize(
    ("policy", "costs"),
    [(MIXED, [{"tokens": cost} for cost in range(7)]), (PLAIN, [1] * 6 + [3])],
    ids=["mixed", "plain"],
)
@given(steps)
def test_both_ways_lead_to_the_same_state(policy, costs, taken):
    long, short = World(policy, costs, short_way=False), World(policy, costs, short_way=True)
    for step in taken:
        long.step(*step)
        short.step(*step)
        assert short.state() == long.state()
