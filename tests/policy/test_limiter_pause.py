"""HostLimiter after refusals: pause, block and ramp, in virtual time (ns)."""

from __future__ import annotations

import pytest

from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.policy.ticket import State, Ticket
from comity.policy.turns import Turns
from comity.policy.windows import NEVER
from tests.policy.stage import MS, OK, S, Stage, come, host, run, stage


def refuse(limiter: HostLimiter, ticket: Ticket, now: int, until: int, *, block: bool = False) -> bool:
    limiter.release(ticket, now)
    return limiter.refuse_until(ticket, now, until, refused=True, hinted=True, block=block)


def test_after_a_pause_one_starts_and_one_more_for_each_success():
    """PF-015: the gap is off here, so the ramp alone paces."""
    traffic = stage(concurrency=4, learn=None)
    refused = Outcome(status=429, retry_after=5 * S)
    traffic.submit(0, takes=10 * MS, answer=lambda number, _at: refused if number == 1 else OK, retry=Retry())
    for _ in range(12):
        traffic.submit(20 * MS, takes=100 * MS)
    traffic.run()
    after = [round((time - 5 * S) / MS) for time in traffic.times[1:]]
    assert after == [10, 20, 20, 120, 120, 120, 120, 220, 220, 220, 220, 320, 320]


def test_retries_that_hold_their_slots_ramp_too():
    """CP-082"""
    limiter = host(concurrency=3, learn=None)
    tickets = [run(limiter, 0) for _ in range(3)]
    for ticket in tickets:
        limiter.release(ticket, 1, keep_slot=True)
        limiter.refuse_until(ticket, 1, S, refused=True, hinted=True, block=False)
        limiter.enqueue(ticket, 1)
    assert limiter.admit(1).wake_at == S
    assert limiter.admit(S).granted == [tickets[0]]
    limiter.started(tickets[0], S)
    limiter.release(tickets[0], S)
    limiter.succeeded(tickets[0])
    assert limiter.admit(S).granted == tickets[1:]
    assert limiter.running == 2


def test_retries_that_hold_a_slot_go_first():
    """CP-082"""
    limiter = host(concurrency=1, rate="1/s")
    ticket = run(limiter, 0, priority=9)
    limiter.release(ticket, 1, keep_slot=True)
    urgent = come(limiter, 2, priority=0)
    assert limiter.admit(2).granted == []
    limiter.enqueue(ticket, 3)
    assert limiter.admit(S).granted == [ticket]
    assert limiter.running == 1
    limiter.withdraw(ticket, S)
    assert limiter.admit(S).granted == [urgent]


@pytest.mark.parametrize("queues", [False, True])
def test_a_held_slot_is_given_back_when_its_retry_is_cancelled(queues):
    limiter = host(concurrency=1, rate="1/s")
    ticket = run(limiter, 0)
    limiter.release(ticket, 1, keep_slot=True)
    if queues:
        limiter.enqueue(ticket, 1)
    limiter.withdraw(ticket, 2)
    assert (limiter.running, limiter.queued) == (0, 0)
    assert run(limiter, 2 * S)


def test_who_cannot_start_before_the_pause_ends_is_refused_at_once():
    """150 jobs, a 429 pause of 5 s, deadline 1 s: all end at once, 1 send, nothing left running, works again after."""
    traffic = stage(concurrency=1)
    refused = Outcome(status=429, retry_after=5 * S)
    for number in range(150):
        traffic.submit(number, takes=10 * MS, patience=S, answer=lambda _number, _at: refused)
    traffic.submit(100 * MS, "late", patience=S)
    traffic.submit(5_010 * MS, "after", patience=S)
    traffic.run()
    assert traffic.names == ["", "after"]
    assert {(at, state) for at, _, state in traffic.refused} == {
        (10 * MS, State.BLOCKED),
        (100 * MS, State.BLOCKED),
    }
    assert len(traffic.refused) == 150
    assert traffic.quiet


@pytest.mark.parametrize(("deadline", "state"), [(5 * S, State.BLOCKED), (5 * S + 1, State.WAITING)])
@pytest.mark.parametrize("early", [True, False])
def test_a_deadline_at_the_pauses_end_is_too_early_and_one_after_it_is_not(deadline, state, early):
    limiter = host()
    ticket = run(limiter, 0)
    waiting = come(limiter, 0, deadline=deadline) if early else None
    refuse(limiter, ticket, 1, 5 * S)
    waiting = waiting or come(limiter, 1, deadline=deadline)
    assert waiting.state is state
    assert limiter.admit(2).refused == ([waiting] if state is State.BLOCKED else [])


@pytest.mark.parametrize("now", [5 * S, 6 * S])
def test_who_comes_too_late_after_a_pause_is_expired_not_blocked(now):
    limiter = host()
    refuse(limiter, run(limiter, 0), 1, 5 * S)
    ticket = come(limiter, now, deadline=now - 1)
    assert limiter.admit(now).refused == [ticket]
    assert ticket.state is State.EXPIRED


def test_a_refusal_without_a_wait_leaves_those_who_are_late_to_their_deadline():
    limiter = host(concurrency=1)
    ticket = run(limiter, 0)
    late = come(limiter, 0, deadline=5)
    refuse(limiter, ticket, 10, 10)
    limiter.admit(10)
    assert late.state is State.EXPIRED


def test_a_blocked_host_refuses_who_waits_and_who_comes_until_the_time_has_come():
    """PF-018: every call to that host is refused at once until `until`, and nothing is sent."""
    limiter = host(concurrency=3)
    first, second = run(limiter, 0), run(limiter, 0)
    limiter.release(second, 0, keep_slot=True)
    limiter.enqueue(second, 0)
    waiting = [second, come(limiter, 0), come(limiter, 0, deadline=NEVER - 1)]
    assert refuse(limiter, first, 1, 3600 * S, block=True)
    waiting.append(come(limiter, 2))
    assert limiter.admit(2).refused == waiting
    assert {ticket.state for ticket in waiting} == {State.BLOCKED}
    limiter.withdraw(second, 3)
    assert (limiter.running, limiter.queued) == (0, 0)
    run(limiter, 3600 * S)


def test_a_paused_host_does_not_hold_up_another():
    """PR-05: two places over all; A is paused for 5 s; 10 calls for A, then 10 for B: all of B end at once."""
    turns = Turns(2)
    hosts = [HostLimiter(Policy(), 0, turns=turns, name=str(number)) for number in range(2)]
    traffic = Stage(hosts)
    refused = Outcome(status=429, retry_after=5 * S)
    for name, number in (("A", 0), ("B", 1)):
        for _ in range(10):
            traffic.submit(
                0,
                name,
                host=number,
                takes=10 * MS,
                retry=Retry(),
                answer=lambda attempt, _at, name=name: refused if name == "A" and attempt == 1 else OK,
            )
    traffic.run()
    ended = [at for at, name, _ in traffic.done if name == "B"]
    assert len(ended) == 10
    assert max(ended) < S
    assert len(traffic.done) == 20
    assert turns.free == 2


def test_closing_refuses_who_waits_and_who_comes_and_lets_who_runs_finish():
    limiter = host(concurrency=1)
    ticket = run(limiter, 0)
    gone, waiting = come(limiter, 0), come(limiter, 0)
    limiter.withdraw(gone, 0)
    limiter.close()
    assert limiter.admit(0).refused == [waiting]
    assert gone.state is State.WITHDRAWN
    assert waiting.state is State.CLOSED
    late = come(limiter, 0)
    assert limiter.admit(0).refused == [late]
    assert not limiter.take(0)
    limiter.release(ticket, 1)
    assert (limiter.running, limiter.queued) == (0, 0)
