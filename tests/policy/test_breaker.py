"""Breaker: its options, and the gate of a host that only fails. Pure: every test passes `now`, ns."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.breaker import Breaker
from comity.policy.feedback import end_attempt
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import DONE, GiveUp
from comity.policy.ticket import State, Ticket
from tests.policy.stage import come, host, run

S = 1_000_000_000
MS = 1_000_000
OK, DOWN = Outcome(status=200), Outcome(status=503)
FAILURES = [DOWN, Outcome(failure="lost", sent="maybe"), Outcome(failure="timeout", sent="yes"), Outcome(status=408)]


def end(limiter: HostLimiter, ticket: Ticket, now: int, outcome: Outcome) -> None:
    end_attempt(limiter, ticket, outcome, DONE if outcome.ok else GiveUp("attempts"), now)


def down(failures: int = 6, **policy) -> HostLimiter:
    """Return a limiter whose requests so far all failed, at 0."""
    limiter = host(**{"breaker": True, "concurrency": 1} | policy)
    for n in range(failures):
        end(limiter, run(limiter, 0), 0, FAILURES[n % len(FAILURES)])
    return limiter


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"failures": 0}, r"breaker\.failures=0"),
        ({"first_wait": 0}, r"breaker\.first_wait=0"),
        ({"first_wait": "6s"}, r"breaker\.first_wait='6s'.*longest_wait=5"),
        ({"longest_wait": "off"}, r"breaker\.longest_wait='off'"),
        ({"failurs": 3}, r"failurs.*failures"),
    ],
)
def test_options_that_cannot_hold_are_told(options, message):
    with pytest.raises(OptionsError, match=message):
        Breaker(**options)


def test_true_is_the_usual_one_and_none_and_false_are_none():
    assert Policy(breaker=True).breaker == Breaker()
    assert Policy(breaker=Breaker(failures=3)).breaker == Breaker(failures=3)
    assert Policy().breaker is Policy(breaker=False).breaker is None
    with pytest.raises(OptionsError, match=r"breaker=.*True, a Breaker"):
        Policy(breaker="on")


def test_it_opens_after_so_many_failures_in_a_row_of_whatever_kind():
    assert not down(5).breaker.open
    assert down(6).breaker.open
    assert down(3, breaker=Breaker(failures=3)).breaker.open


@pytest.mark.parametrize("other", [OK, Outcome(status=404)])
def test_an_answer_that_is_no_failure_begins_the_count_anew(other):
    limiter = down(5)
    end(limiter, run(limiter, 0), 0, other)
    end(limiter, run(limiter, 0), 0, DOWN)
    assert not limiter.breaker.open


@pytest.mark.parametrize("other", [Outcome(failure="cancelled", sent="maybe"), Outcome(failure="connect", sent="no")])
def test_what_the_caller_ended_is_no_failure_and_no_connection_is_one(other):
    limiter = down(5)
    end(limiter, run(limiter, 0), 0, other)
    assert limiter.breaker.open is (other.failure == "connect")


def test_it_takes_twice_what_may_run_at_once():
    assert not down(19, concurrency=10).breaker.open
    assert down(20, concurrency=10).breaker.open


def test_without_a_limit_it_takes_twice_what_runs():
    limiter = host(breaker=True, concurrency=None)
    tickets = [run(limiter, 0) for _ in range(20)]
    for ticket in tickets[:15]:
        end(limiter, ticket, 0, DOWN)
    assert limiter.breaker.open


def test_while_it_is_open_one_at_a_time_starts_ever_later_and_the_others_wait():
    limiter = down(20, concurrency=10)
    waiting = [come(limiter, 0) for _ in range(5)]
    times, now = [], 0
    while len(times) < 5:
        admission = limiter.admit(now)
        times += [now] * len(admission.granted)
        for ticket in admission.granted:
            limiter.started(ticket, now)
            end(limiter, ticket, now, DOWN)
        now = min(admission.wake_at, 100 * S)
    assert [at / S for at in times] == [0.5, 1.25, 2.375, 4.0625, 6.59375]
    assert [ticket.state for ticket in waiting] == [State.DONE] * 5


def test_one_success_closes_it_and_the_others_follow_in_growing_numbers():
    limiter = down(20, concurrency=10)
    probe = come(limiter, 0)
    for _ in range(9):
        come(limiter, 0)
    assert limiter.admit(S).granted == [probe]
    limiter.started(probe, S)
    end(limiter, probe, S, OK)
    assert (limiter.breaker.open, len(limiter.admit(S).granted)) == (False, 2)


def test_the_success_of_what_started_before_it_opened_does_not_close_it():
    limiter = host(breaker=Breaker(failures=2), concurrency=2)
    early = run(limiter, 0)
    for _ in range(4):
        end(limiter, run(limiter, 0), 0, DOWN)
    assert limiter.breaker.open
    end(limiter, early, 0, OK)
    assert limiter.breaker.open


def test_who_cannot_wait_for_a_probe_runs_out_of_his_own_time_and_is_not_blocked():
    limiter = down()
    ticket = come(limiter, 0, deadline=100 * MS)
    assert limiter.admit(100 * MS).refused == [ticket]
    assert ticket.state is State.EXPIRED


def test_a_host_that_is_down_is_not_forgotten():
    assert not down().idle(60 * S)
    assert down(5).idle(60 * S)


def test_adaptive_control_has_one_anyway_and_takes_its_options_and_ema_has_none():
    assert host(adaptive=True).breaker is not None
    assert host(adaptive="ema").breaker is host().breaker is None
    assert down(2, adaptive=True, breaker=Breaker(failures=2)).breaker.open
    assert down(6, adaptive="ema").breaker.open
