"""Feedback: what an attempt's end means for its host."""

from __future__ import annotations

import pytest

from comity.policy.feedback import end_attempt
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.pause import NO_CAP
from comity.policy.retry import DONE, GiveUp, RetryAt
from comity.policy.ticket import State, Ticket

S = 1_000_000_000
NOW = 100 * S
OK = Outcome(status=200)
REFUSED = Outcome(status=429, retry_after=5 * S)


def host(**policy) -> HostLimiter:
    return HostLimiter(Policy(**{"learn": "gap"} | policy), 0)


def running(limiter: HostLimiter, now: int = NOW, *, started: bool = True) -> Ticket:
    """Return a ticket that was granted, and started, at `now`."""
    ticket = Ticket(5, limiter.meters.ordinary)
    limiter.enqueue(ticket, now)
    assert limiter.admit(now).granted == [ticket]
    if started:
        limiter.started(ticket, now)
    return ticket


def test_an_attempt_that_ends_gives_back_its_slot():
    limiter = host()
    ticket = running(limiter)
    assert not end_attempt(limiter, ticket, OK, DONE, NOW)
    assert (ticket.state, limiter.running) == (State.DONE, 0)


def test_an_attempt_of_which_nothing_was_sent_is_not_counted_against_the_rate():
    limiter = host(rate="1/h")
    lost = Outcome(failure="connect", sent="no")
    end_attempt(limiter, running(limiter, started=False), lost, GiveUp("attempts"), NOW)
    assert limiter.earliest(NOW) == NOW


@pytest.mark.parametrize("sent", ["maybe", "yes"])
def test_an_attempt_of_which_something_may_have_been_sent_counts_even_if_nobody_noted_it(sent):
    limiter = host(rate="1/h")
    lost = Outcome(failure="lost", sent=sent)
    end_attempt(limiter, running(limiter, started=False), lost, GiveUp("attempts"), NOW)
    assert limiter.earliest(NOW) == NOW + 3600 * S


def test_a_refusal_pauses_the_host_and_widens_its_gap_once_an_episode():
    """PF-015: once per episode: refusals of requests that were under way tell nothing new."""
    limiter = host()
    first, second = running(limiter), running(limiter)
    assert end_attempt(limiter, first, REFUSED, RetryAt(NOW + 5 * S, "429", pause=NOW + 5 * S), NOW)
    assert not end_attempt(limiter, second, REFUSED, RetryAt(NOW + 5 * S, "429", pause=NOW + 5 * S), NOW)
    assert (limiter.hold, limiter.gap.learned) == (NOW + 5 * S, S // 4)
    third = running(limiter, NOW + 5 * S)
    assert end_attempt(limiter, third, REFUSED, GiveUp("attempts", pause=NOW + 11 * S), NOW + 6 * S)
    assert (limiter.hold, limiter.gap.learned) == (NOW + 11 * S, S // 2)


def test_a_refusal_without_any_time_still_starts_the_ramp():
    limiter = host()
    assert end_attempt(limiter, running(limiter), Outcome(status=429), GiveUp("backoff"), NOW)
    assert (limiter.hold, limiter.cap) == (NOW, 1)


def test_a_time_named_by_another_status_pauses_but_does_not_widen_the_gap():
    limiter = host()
    busy = Outcome(status=503, retry_after=5 * S)
    assert end_attempt(limiter, running(limiter), busy, RetryAt(NOW + 5 * S, "503", pause=NOW + 5 * S), NOW)
    assert (limiter.hold, limiter.gap.learned, limiter.cap) == (NOW + 5 * S, 0, 1)


def test_a_time_that_is_too_far_away_blocks_the_host():
    """PF-017, PF-018: every call is refused at once until then, and nothing is sent."""
    limiter = host()
    waiting = Ticket(5, limiter.meters.ordinary)
    first = running(limiter)
    until = NOW + 3600 * S
    hour = Outcome(status=429, retry_after=3600 * S)
    limiter.enqueue(waiting, NOW)
    end_attempt(limiter, first, hour, GiveUp("retry_after", until=until, block=until), NOW)
    late = Ticket(0, limiter.meters.ordinary)
    limiter.enqueue(late, until - 1)
    admission = limiter.admit(until - 1)
    assert admission.granted == []
    assert [ticket.state for ticket in admission.refused] == [State.BLOCKED, State.BLOCKED]
    running(limiter, until)


@pytest.mark.parametrize("status", [200, 302, 404])
def test_any_answer_that_is_a_result_counts_as_a_success_of_the_host(status):
    limiter = host()
    end_attempt(limiter, running(limiter), REFUSED, GiveUp("attempts", pause=NOW + S), NOW)
    end_attempt(limiter, running(limiter, NOW + S), Outcome(status=status), DONE, NOW + S)
    assert limiter.cap == 2


@pytest.mark.parametrize(
    "outcome", [Outcome(status=500), Outcome(status=408), Outcome(failure="timeout"), Outcome(failure="lost")]
)
def test_a_failure_breaks_the_row_of_successes_and_does_not_ramp(outcome):
    """PF-016: in a row."""
    limiter = host(concurrency=None)
    end_attempt(limiter, running(limiter), REFUSED, GiveUp("attempts", pause=NOW), NOW)
    now = NOW
    for result in [OK] * 19 + [outcome] + [OK] * 19:
        now += S
        decision = DONE if result is OK else GiveUp("attempts")
        assert not end_attempt(limiter, running(limiter, now), result, decision, now)
    assert (limiter.gap.learned, limiter.cap) == (S // 4, 39)
    end_attempt(limiter, running(limiter, now + S), OK, DONE, now + S)
    assert limiter.gap.learned == 0


@pytest.mark.parametrize("failure", ["blocked", "cancelled", "deadline"])
def test_what_the_caller_broke_off_says_nothing_about_the_host(failure):
    limiter = host(concurrency=None)
    end_attempt(limiter, running(limiter), REFUSED, GiveUp("attempts", pause=NOW), NOW)
    now = NOW
    for result in [OK] * 19 + [Outcome(failure=failure)] + [OK]:
        now += S
        decision = DONE if result is OK else GiveUp(failure)
        end_attempt(limiter, running(limiter, now), result, decision, now)
    assert limiter.gap.learned == 0


def test_successes_of_requests_from_before_the_pause_tell_nothing():
    limiter = host(concurrency=50)
    old = [running(limiter) for _ in range(40)]
    end_attempt(limiter, old[0], REFUSED, GiveUp("attempts", pause=NOW + S), NOW)
    for ticket in old[1:]:
        end_attempt(limiter, ticket, OK, DONE, NOW)
    assert (limiter.gap.learned, limiter.cap) == (S // 4, 1)


def test_a_slot_that_is_kept_stays_taken_until_the_retry_gives_it_back():
    """CP-082: retry waits keep the logical request's concurrency slot."""
    limiter = host(concurrency=1)
    ticket = running(limiter)
    end_attempt(limiter, ticket, Outcome(status=500), RetryAt(NOW + S, "500"), NOW, keep_slot=True)
    other = Ticket(0, limiter.meters.ordinary)
    limiter.enqueue(other, NOW)
    assert limiter.admit(NOW).granted == []
    limiter.enqueue(ticket, NOW + S)
    assert limiter.admit(NOW + S).granted == [ticket]
    end_attempt(limiter, ticket, OK, DONE, NOW + S)
    assert limiter.admit(NOW + S).granted == [other]
    assert limiter.cap == 1
    assert limiter.pause.cap == NO_CAP
