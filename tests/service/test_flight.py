"""Flight: what is under way when a limiter begins counts there until its answer."""

from __future__ import annotations

from comity.policy.rate import Rate
from comity.policy.ticket import Ticket
from comity.policy.units import NS
from comity.policy.windows import NEVER
from comity.service.flight import Flight
from comity.service.turn import UNLIMITED, lane_gate
from comity.testing.virtual_clock import VirtualClock


def gate(clock):
    return lane_gate(UNLIMITED.replace(rate=Rate(1, 10, measured="server"), concurrency=1), "lane", clock)


def another(of):
    return of.earliest(Ticket(5, of.core.meters.ordinary))


def test_it_takes_the_limit_from_its_answer_on():
    clock = VirtualClock()
    flight, counted = Flight("lane"), gate(clock)
    flight.count_in(counted)
    clock.advance(60)
    assert (another(counted), counted.core.running) == (NEVER, 1)
    flight.over()
    assert (another(counted), counted.core.running) == (clock.now() + 10 * NS, 0)


def test_one_that_was_over_before_the_limiter_began_counts_from_then():
    """What the store was asked meanwhile may not have told of its end."""
    clock = VirtualClock()
    flight, counted = Flight("lane"), gate(clock)
    flight.over()
    flight.count_in(counted)
    assert (another(counted), counted.core.running) == (clock.now() + 10 * NS, 0)
