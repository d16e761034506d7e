"""HostLimiter and its queue: order, cancellation, expiry and bound, in virtual time (ns)."""

from __future__ import annotations

import pytest

from comity.errors import QueueFull
from comity.policy.ticket import State
from comity.policy.windows import NEVER
from tests.policy.stage import MS, S, come, host, run, stage

# ---- priority ----------------------------------------------------------------------------------------


def test_a_lower_number_starts_first():
    """CP-060: one running, then 9, 1, 5 submitted -> 1, 5, 9; the default, 5, runs before 6."""
    traffic = stage(concurrency=1)
    traffic.submit(0, "running", takes=MS)
    for priority in (9, 1, 6, 5):
        traffic.submit(1, str(priority), priority=priority, takes=MS)
    traffic.run()
    assert traffic.names == ["running", "1", "5", "6", "9"]


def test_an_urgent_one_goes_out_next_for_nobody_holds_a_slot_before_his_turn():
    """CP-060: after five waiting low ones under concurrency 3 and a min gap it goes out next, not fourth."""
    traffic = stage(concurrency=3, min_gap=0.1)
    for number in range(6):
        traffic.submit(0, f"low {number}", priority=9, takes=10 * MS)
    traffic.submit(10 * MS, "urgent", priority=0, takes=10 * MS)
    traffic.run()
    assert traffic.names[:3] == ["low 0", "urgent", "low 1"]


def test_waiting_makes_urgent():
    """PR-01: one slot, 20 ms each, priority 0 always waits, ageing 3 s over all steps: priority 9 starts by 3.5 s."""
    traffic = stage(concurrency=1, ageing=3 / 9)
    traffic.submit(0, "first", priority=0, takes=20 * MS)
    traffic.submit(0, "patient", priority=9)
    for number in range(500):
        traffic.submit(number * 20 * MS, "urgent", priority=0, takes=20 * MS)
    traffic.run(10 * S)
    assert 3 * S <= dict(map(reversed, traffic.starts))["patient"] <= 3.5 * S


def test_without_ageing_priorities_are_strict():
    """PR-01: strict by explicit choice."""
    traffic = stage(concurrency=1, ageing=None)
    traffic.submit(0, "first", priority=0, takes=20 * MS)
    traffic.submit(0, "patient", priority=9)
    for number in range(600):
        traffic.submit(number * 20 * MS, "urgent", priority=0, takes=20 * MS)
    traffic.run(12 * S)
    assert "patient" not in traffic.names


def test_ageing_moves_up_one_priority_for_each_step_waited():
    limiter = host(concurrency=1, ageing=60)
    blocker = run(limiter, 0)
    old = come(limiter, 0, priority=6)
    same = come(limiter, 60 * S, priority=5)
    newer = come(limiter, 60 * S - 1, priority=5)
    order = []
    limiter.release(blocker, 61 * S)
    for _ in range(3):
        (ticket,) = limiter.admit(61 * S).granted
        order.append(ticket)
        limiter.withdraw(ticket, 61 * S)
    assert order == [newer, old, same]


def test_a_retry_keeps_its_place_in_time():
    limiter = host(concurrency=1)
    ticket = run(limiter, 0)
    later = come(limiter, 1)
    limiter.release(ticket, 2)
    limiter.enqueue(ticket, 2)
    assert limiter.admit(2).granted == [ticket]
    assert later.state is State.WAITING


# ---- cancellation ------------------------------------------------------------------------------------


def test_a_cancelled_waiter_costs_nothing_and_nobody_waits_for_it():
    """CA-05: 1 per 1 s, A at 0, B, C, D cancelled at 0.2 s, E submitted at 0.3 s starts at 1 s."""
    traffic = stage(rate="1/s")
    traffic.submit(0, "A")
    for name in "BCD":
        traffic.cancel(200 * MS, traffic.submit(0, name))
    traffic.submit(300 * MS, "E")
    traffic.run()
    assert traffic.starts == [(0, "A"), (S, "E")]
    assert traffic.quiet


def test_a_cancelled_waiter_is_gone_at_once_and_the_rest_keep_their_order():
    limiter = host(concurrency=1)
    blocker = run(limiter, 0)
    first, second, third = (come(limiter, at) for at in (1, 2, 3))
    limiter.withdraw(first, 4)
    assert limiter.queued == 2
    limiter.release(blocker, 5)
    assert limiter.admit(5).granted == [second]
    limiter.withdraw(second, 6)
    assert limiter.admit(6).granted == [third]


def test_a_grant_that_is_cancelled_before_its_first_byte_is_undone():
    limiter = host(rate="1/h", min_gap=10)
    ticket = come(limiter, 0)
    limiter.admit(0)
    limiter.withdraw(ticket, 1)
    assert limiter.running == 0
    assert limiter.idle(1)
    run(limiter, 2)


def test_one_that_is_cancelled_in_flight_gives_back_its_slot_but_not_its_start():
    limiter = host(rate="1/h", concurrency=1)
    limiter.withdraw(run(limiter, 0), 5)
    limiter.withdraw_all([], 5)
    assert limiter.running == 0
    assert limiter.earliest(5) == 3600 * S


def test_withdrawing_twice_gives_back_once():
    limiter = host()
    ticket = run(limiter, 0)
    run(limiter, 0)
    limiter.withdraw_all([ticket, ticket], 0)
    limiter.release(ticket, 0)
    assert limiter.running == 1


def test_one_that_expires_in_the_queue_leaves_the_counts_exact():
    """CA-03: one slot, A takes 1 s; B..E wait at most 0.2 s; F, submitted after A, starts at once."""
    traffic = stage(concurrency=1)
    traffic.submit(0, "A", takes=S)
    for name in "BCDE":
        traffic.submit(0, name, patience=200 * MS)
    traffic.submit(S, "F")
    traffic.run()
    assert traffic.refused == [(200 * MS, name, State.EXPIRED) for name in "BCDE"]
    assert traffic.starts == [(0, "A"), (S, "F")]
    assert traffic.quiet


def test_a_ticket_that_is_used_again_stands_where_it_came_again():
    limiter = host(concurrency=1)
    blocker = run(limiter, 0)
    ticket = come(limiter, 1)
    limiter.withdraw(ticket, 2)
    other = come(limiter, 3)
    ticket.enqueued_at = None
    limiter.enqueue(ticket, 4)
    limiter.release(blocker, 5)
    assert limiter.admit(5).granted == [other]
    assert limiter.queued == 1


def test_nobody_is_woken_for_the_deadline_of_one_that_started_in_time():
    limiter = host()
    ticket = come(limiter, 0, deadline=S)
    admission = limiter.admit(0)
    assert (admission.granted, admission.wake_at) == ([ticket], NEVER)


def test_a_retry_has_its_own_time_to_wait_whatever_the_first_attempt_had():
    limiter = host(rate="1/h")
    ticket = run(limiter, 0, deadline=10 * S)
    limiter.release(ticket, 5 * S)
    ticket.deadline = 20 * S
    limiter.enqueue(ticket, 5 * S)
    assert limiter.admit(5 * S).wake_at == 20 * S
    assert limiter.admit(10 * S).refused == []
    assert limiter.admit(20 * S).refused == [ticket]


# ---- the queue's bound -------------------------------------------------------------------------------


def test_a_full_queue_refuses_at_once():
    """DL-06: it never waits for room, so a consumer that submits from its own results cannot stop everything."""
    limiter = host(concurrency=2, max_queue=4)
    tickets = [come(limiter, 0) for _ in range(2)]
    limiter.admit(0)
    tickets += [come(limiter, 0) for _ in range(4)]
    with pytest.raises(QueueFull, match=r"4 requests wait already \(max_queue=4\)"):
        come(limiter, 0)
    for ticket in tickets:
        limiter.withdraw(ticket, 0)
    assert (limiter.queued, limiter.running) == (0, 0)
    run(limiter, 0)


def test_a_retry_is_let_in_although_the_queue_is_full():
    limiter = host(concurrency=1, max_queue=1)
    ticket = run(limiter, 0)
    come(limiter, 1)
    limiter.release(ticket, 2)
    limiter.enqueue(ticket, 2)
    assert limiter.admit(2).granted == [ticket]


# ---- the time of a retry -----------------------------------------------------------------------------


def again(limiter, ticket, now, not_before):
    limiter.release(ticket, now)
    ticket.not_before = not_before
    limiter.enqueue(ticket, now)


def test_a_retry_waits_aside_for_its_time_and_holds_up_nobody():
    limiter = host(concurrency=1)
    ticket = run(limiter, 0)
    again(limiter, ticket, 10, not_before=100)
    other = come(limiter, 20)
    admission = limiter.admit(20)
    assert (admission.granted, admission.wake_at) == ([other], 100)
    limiter.release(other, 30)
    assert limiter.admit(99).granted == []
    assert limiter.admit(100).granted == [ticket]


def test_a_retry_whose_time_has_come_stands_where_its_age_puts_it():
    limiter = host(concurrency=1)
    ticket = run(limiter, 0)
    again(limiter, ticket, 10, not_before=100)
    runs = run(limiter, 20)
    younger = come(limiter, 30)
    limiter.release(runs, 100)
    assert limiter.admit(100).granted == [ticket]
    assert (limiter.queued, limiter.aside) == (1, 0)
    limiter.withdraw(younger, 101)


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (lambda limiter, ticket: limiter.close(), State.CLOSED),
        (lambda limiter, ticket: limiter.withdraw(ticket, 50), State.WITHDRAWN),
        (lambda limiter, ticket: refuse(limiter, block=True), State.BLOCKED),
        (lambda limiter, ticket: refuse(limiter, block=False), State.WAITING),
    ],
)
def test_who_waits_aside_is_refused_like_who_waits_in_line(end, state):
    limiter = host()
    ticket = run(limiter, 0)
    again(limiter, ticket, 10, not_before=100)
    end(limiter, ticket)
    limiter.admit(50)
    assert ticket.state is state
    assert limiter.aside == (state is State.WAITING)


def refuse(limiter, *, block):
    other = run(limiter, 20)
    limiter.refuse_until(other, 30, 1000, refused=True, hinted=True, block=block)


def test_nobody_is_granted_at_once_before_the_time_of_his_retry():
    limiter = host()
    ticket = run(limiter, 0)
    limiter.release(ticket, 10)
    ticket.not_before = 100
    assert not limiter.grant_at_once(ticket, 99)
    assert limiter.grant_at_once(ticket, 100)


def test_a_full_queue_counts_who_waits_in_line_alone():
    limiter = host(concurrency=1, max_queue=1)
    again(limiter, run(limiter, 0), 10, not_before=100)
    come(limiter, 20)
    assert len(limiter.admit(20).granted) == 1
    come(limiter, 21)
    with pytest.raises(QueueFull):
        come(limiter, 22)
