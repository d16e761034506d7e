"""HostLimiter: concurrency, the bound over hosts, the short way and what a grant costs, in virtual time (ns)."""

from __future__ import annotations

import random

import pytest

from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.rate import Rate
from comity.policy.retry import Retry
from comity.policy.ticket import State, Ticket
from comity.policy.turns import Turns
from comity.policy.windows import NEVER
from tests.policy.stage import MS, OK, S, Stage, come, host, run, stage

FAILED = Outcome(status=500)


# ---- concurrency -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_no_more_run_at_once_than_the_limit_says_and_no_fewer(limit):
    """CP-005, PF-008, PF-010, AR-010: never more in flight. AR-011: a call starts at once when a slot is free."""
    traffic = stage(concurrency=limit)
    for number in range(40):
        traffic.submit(0, str(number), takes=10 * MS)
    traffic.run()
    assert traffic.peak == limit
    assert traffic.times == [number // limit * 10 * MS for number in range(40)]


def test_equals_start_in_the_order_in_which_they_came():
    """AR-009: first in, first out."""
    traffic = stage(concurrency=2, rate="3/s")
    for number in range(20):
        traffic.submit(number % 3, f"{number % 3}:{number:02}", takes=MS)
    traffic.run()
    assert traffic.names == sorted(traffic.names)


@pytest.mark.parametrize("turns", [None, Turns(3)])
def test_what_is_under_way_elsewhere_takes_its_slot_and_its_rate_whatever_the_limits_say(turns):
    limiter = HostLimiter(Policy(concurrency=1, rate=Rate(1, 10, measured="server")), 0, turns=turns)
    carried = [Ticket(5, limiter.meters.ordinary) for _ in range(2)]
    for each in carried:
        limiter.carry(each, S)
    assert (limiter.running, limiter.earliest(S)) == (2, NEVER)
    for each in carried:
        limiter.release(each, 7 * S)
    assert (limiter.running, limiter.earliest(7 * S)) == (0, 17 * S)
    assert turns is None or turns.free == 3


def test_without_a_limit_everything_starts_at_once():
    traffic = stage(concurrency=None)
    for _ in range(1_000):
        traffic.submit(0, takes=S)
    traffic.run()
    assert set(traffic.times) == {0}


# ---- a bound over hosts ------------------------------------------------------------------------------


def test_hosts_that_share_a_full_bound_take_turns():
    turns = Turns(2)
    traffic = Stage([HostLimiter(Policy(), 0, turns=turns, name=str(number)) for number in range(3)])
    for number in range(3):
        for _ in range(10):
            traffic.submit(0, str(number), host=number, takes=10 * MS)
    traffic.run()
    assert len(traffic.starts) == 30
    assert traffic.times[-1] == 140 * MS
    middle = traffic.names[6:24]
    assert max(middle.count(name) for name in "012") - min(middle.count(name) for name in "012") <= 1
    assert turns.free == 2


def test_a_host_that_cannot_use_its_turn_leaves_the_line():
    turns = Turns(1)
    one, two = (HostLimiter(Policy(), 0, turns=turns, name=name) for name in "12")
    first = run(one, 0)
    come(two, 0)
    assert two.admit(0).wake_at == NEVER
    waiting = come(one, 0, deadline=5)
    one.admit(0)
    assert one.admit(5).refused == [waiting]
    one.release(first, 6)
    assert turns.next() == "2"
    assert len(two.admit(6).granted) == 1
    assert turns.next() is None


def test_a_host_is_undisturbed_when_nobody_waits_there_or_for_its_place():
    turns = Turns(1)
    one, two = (HostLimiter(Policy(), 0, turns=turns, name=name) for name in "12")
    first = run(one, 0)
    assert one.undisturbed(0)
    waiting = come(two, 0)
    assert not two.undisturbed(0)
    two.admit(0)
    assert not one.undisturbed(0), "another host stands in line"
    two.withdraw(waiting, 0)
    two.admit(0)
    assert one.undisturbed(0)
    one.close()
    come(one, 0)
    assert not one.undisturbed(0), "somebody has to be told"
    one.admit(0)
    one.release(first, 0)
    assert one.undisturbed(0)


# ---- the short way -----------------------------------------------------------------------------------


def test_the_short_way_counts_like_the_long_one():
    limiter = host(concurrency=2, rate="3/s")
    assert limiter.take(0)
    run(limiter, 0)
    assert not limiter.take(0)
    limiter.give_back(1)
    assert limiter.take(1)
    limiter.give_back(1)
    assert not limiter.take(S - 1)
    assert limiter.take(S)
    assert limiter.running == 2


def test_the_short_way_is_closed_while_others_wait():
    limiter = host(rate="1/s")
    assert limiter.take(0)
    come(limiter, 0)
    assert not limiter.take(S)


@pytest.mark.parametrize(
    "policy",
    [
        {"min_gap": 1},
        {"rate": Rate(1, 1, measured="server")},
        {"rate": Rate(1, 1, kind="fixed")},
        {"rate": Rate(1, 1, spread=True)},
        {"rate": Rate(200_000, 1)},
        {"rate": "10 tokens/s"},
    ],
)
def test_rates_that_need_more_than_a_count_go_the_long_way(policy):
    assert not host(**policy).take(0)


def test_the_end_of_the_short_way_dates_what_is_measured_at_the_server():
    limiter = host(rate=[Rate(1, 1, measured="server"), "5 tokens/s"])
    run(limiter, 0)
    limiter.give_back(10 * S)
    assert limiter.running == 0
    assert limiter.earliest(10 * S) == 11 * S


# ---- forgetting --------------------------------------------------------------------------------------


def test_a_limiter_is_idle_when_forgetting_it_loses_nothing():
    limiter = host(rate="1/s", min_gap=5, concurrency=None)
    assert limiter.idle(0)
    ticket = come(limiter, 0)
    assert not limiter.idle(0)
    limiter.admit(0)
    assert not limiter.idle(0)
    limiter.started(ticket, 0)
    limiter.release(ticket, 0)
    assert not limiter.idle(S), "the own gap runs"
    assert limiter.idle(5 * S)
    limiter.refuse_until(run(limiter, 5 * S), 5 * S, 9 * S, refused=True, hinted=True, block=False)
    assert not limiter.idle(8 * S)
    assert not limiter.idle(10**18), "the learned gap is worth keeping"


# ---- what it costs -----------------------------------------------------------------------------------


class Counted(int):
    """A time that counts how often the queue compares it."""

    looks = 0

    def __add__(self, other):
        return Counted(int(self) + other)

    def __eq__(self, other):
        Counted.looks += 1
        return int(self) == int(other)

    def __lt__(self, other):
        Counted.looks += 1
        return int(self) < int(other)

    __hash__ = int.__hash__


def looks_per_grant(waiting: int) -> float:
    """Return how many comparisons a grant costs when so many wait."""
    limiter, chance = host(rate="1/s", concurrency=None), random.Random(1)
    for number in range(waiting):
        ticket = Ticket(chance.randrange(10), limiter.meters.ordinary)
        ticket.enqueued_at = Counted(number)
        limiter.enqueue(ticket, 0)
    Counted.looks = 0
    for second in range(50):
        (ticket,) = limiter.admit(second * S).granted
        limiter.started(ticket, second * S)
    return Counted.looks / 50


def test_a_grant_costs_logarithmic_work_however_many_wait():
    few, many = looks_per_grant(100), looks_per_grant(10_000)
    assert many <= 60
    assert many <= 3 * few


def test_the_heaps_shrink_when_most_waiters_go_away():
    limiter = host(concurrency=1)
    run(limiter, 0)
    tickets = [come(limiter, 0, deadline=NEVER - 1) for _ in range(10_000)]
    for ticket in tickets[:9_900]:
        limiter.withdraw(ticket, 0)
    assert limiter.queued == 100
    assert len(limiter._queue) <= 300
    assert len(limiter._deadlines) <= 300


def test_the_heaps_shrink_when_most_waiters_expire():
    limiter = host(concurrency=1)
    run(limiter, 0)
    for number in range(10_000):
        come(limiter, 0, deadline=5 if number % 100 else NEVER)
    assert len(limiter.admit(5).refused) == 9_900
    assert len(limiter._queue) <= 300
    assert not limiter._deadlines


def test_requests_with_a_far_deadline_leave_nothing_behind():
    limiter, longest = host(), 0
    for now in range(100_000):
        limiter.release(run(limiter, now, deadline=10**18), now)
        longest = max(longest, len(limiter._deadlines))
    assert longest <= 66
    assert limiter.admit(100_000).wake_at == NEVER


def test_a_soak_of_errors_cancels_and_timeouts_wedges_nothing():
    """DL-05: 5,000 calls, 2 slots, 32 may wait; with waiting work and free capacity something runs."""
    chance, traffic = random.Random(7), stage(concurrency=2, max_queue=32)
    limiter, full = traffic.limiters[0], 0
    outcomes = [OK, OK, FAILED, Outcome(failure="timeout"), Outcome(failure="connect", sent="no")]

    def submit() -> None:
        nonlocal full
        if limiter.queued >= 32:
            full += 1
            return
        how = {"takes": chance.randrange(40 * MS), "connect": chance.randrange(5 * MS)}
        how["patience"] = chance.choice([None, chance.randrange(200 * MS)])
        how["retry"] = Retry(attempts=chance.randint(1, 3), hold_slot=chance.random() < 0.3)
        ticket = traffic.submit(traffic.now, answer=lambda _number, _at: chance.choice(outcomes), **how)
        if chance.random() < 0.4:
            traffic.cancel(traffic.now + chance.randrange(100 * MS), ticket)

    for _ in range(5_000):
        traffic.at(chance.randrange(100 * S), submit)
    for tick in range(1_000):
        traffic.run(tick * 100 * MS)
        assert limiter.queued == 0 or limiter.running, "wedged"
    traffic.run()
    ended = sum(ticket.state in {State.DONE, State.EXPIRED, State.WITHDRAWN} for ticket in traffic.jobs)
    assert ended == len(traffic.jobs)
    assert ended + full == 5_000
    assert full
    assert limiter.queued == limiter.running == 0
