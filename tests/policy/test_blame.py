"""Blame: a refusal that only one part of a host gets is that part's. Virtual time, ns."""

from __future__ import annotations

import pytest

from comity.policy.backoff import Backoff
from comity.policy.blame import _MOST, TRIAL, Blame
from comity.policy.outcome import Outcome
from comity.policy.retry import LONGEST_GUESS, Retry
from comity.policy.ticket import State
from tests.policy.stage import MS, OK, S, come, host, run, stage

REFUSED = Outcome(status=429)


def patient(base=1):
    backoff = Backoff(base=base, shift=1, cap=None, jitter=(0.8, 1.2))
    return Retry(attempts=6, backoff=backoff, idempotent="any", max_retry_after="7d")


# ---- whose it is


def test_a_refusal_while_another_part_is_answered_is_the_parts_own():
    blame = Blame()
    blame.succeeded("well", 10)
    assert blame.refused("ill", 5, 20, 20 + 60 * S) is None
    assert (blame.until("ill"), blame.until("well"), blame.until(None)) == (20 + 60 * S, 0, 0)


def test_a_first_refusal_holds_the_host_only_so_long_that_another_part_can_show_whose_it_is():
    blame = Blame()
    blame.succeeded("well", 1)
    assert blame.refused("ill", 5, 20, 60 * S) == 20 + TRIAL
    assert blame.until("ill") == 60 * S
    blame.succeeded("well", 2 * S)
    assert blame.refused("ill", 60 * S, 60 * S + 1, 120 * S) is None


def test_a_shorter_guess_than_the_trial_stays_what_it_is():
    assert Blame().refused("ill", 5, 20, 100) == 100


def test_a_second_part_that_is_refused_without_a_success_between_makes_it_the_hosts():
    """The law for a host that refuses: as long as the guess."""
    blame = Blame()
    assert blame.refused("a", 0, 1, 9 * S) == 1 + TRIAL
    assert blame.refused("b", 2 * S, 2 * S + 1, 9 * S) == 9 * S


def test_a_success_that_began_before_the_refusal_excuses_no_host():
    blame = Blame()
    blame.refused("a", 10, 20, 9 * S)
    blame.succeeded("c", 5)
    assert blame.refused("b", 2 * S, 2 * S + 1, 9 * S) == 9 * S


def test_a_success_that_began_after_it_does():
    blame = Blame()
    blame.refused("a", 10, 20, 9 * S)
    blame.succeeded("c", 15)
    assert blame.refused("b", 2 * S, 2 * S + 1, 9 * S) == 2 * S + 1 + TRIAL


def test_refusals_of_what_was_under_way_put_nothing_off():
    blame = Blame()
    blame.succeeded("well", 10)
    blame.refused("ill", 5, 20, 2 * S)
    assert blame.refused("ill", 6, 30, 9 * S) is None
    assert blame.until("ill") == 2 * S


def test_a_part_that_is_answered_is_free_unless_the_answer_is_older_than_the_refusal():
    blame = Blame()
    blame.refused("ill", 10, 20, 9 * S)
    assert not blame.succeeded("ill", 9)
    assert blame.succeeded("ill", 11)
    assert blame.until("ill") == 0
    assert blame.idle(0)


def test_its_own_success_proves_nothing_against_a_part():
    blame = Blame()
    blame.succeeded("only", 10)
    blame.succeeded("only", 30)
    assert blame.refused("only", 20, 40, 9 * S) == 40 + TRIAL


def test_of_two_parts_the_later_success_is_remembered_for_each():
    def refusal_of_b(started):
        blame = Blame()
        for part, at in (("a", 10), ("b", 20), ("c", 15), ("d", 1)):
            blame.succeeded(part, at)
        return blame.refused("b", started, 30, 9 * S)

    assert refusal_of_b(14) is None
    assert refusal_of_b(16) == 30 + TRIAL


def test_only_so_many_parts_are_remembered():
    blame = Blame()
    for number in range(_MOST + 1):
        blame.refused(str(number), 1, 2, 9 * S)
    assert (blame.until("0"), blame.until("1")) == (0, 9 * S)


# ---- what it means for who waits


@pytest.mark.parametrize("policy", [{}, {"rate": "200/s"}, {"adaptive": "auto"}, {"learn": "gap"}])
@pytest.mark.parametrize("base", [1, 60])
def test_a_part_that_is_always_refused_costs_the_others_a_second_at_most(policy, base):
    """100/s beside a path that always answers 429 and names no time, whatever law there is for refusals."""
    traffic = stage(concurrency=10, **policy)
    for number in range(50):
        refused = {"answer": lambda *_: REFUSED, "retry": patient(base)}
        traffic.submit(number * 20 * MS, "ill", part="ill", takes=20 * MS, **refused)
    for number in range(2_000):
        traffic.submit(number * 10 * MS, "well", part="well", takes=20 * MS)
    traffic.run(21 * S)
    well = [at for at, name, outcome in traffic.done if name == "well" and outcome is OK]
    assert len(well) == 2_000
    assert traffic.names.count("ill") <= 12


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_a_host_that_refuses_whatever_comes_is_asked_hardly_more_often_than_without_parts(parts):
    def sends(part):
        traffic = stage(concurrency=10)
        for number in range(40):
            refused = {"answer": lambda *_: REFUSED, "retry": patient()}
            traffic.submit(number * 10 * MS, part=part(number), takes=20 * MS, **refused)
        traffic.run(300 * S)
        return len(traffic.starts)

    assert sends(lambda number: f"p{number % parts}") <= sends(lambda _: None) + 2 * parts


def test_who_waits_for_a_held_part_holds_up_nobody_and_expires_by_its_own_deadline():
    limiter = host(concurrency=1, learn=None)
    first, behind = run(limiter, 0, part="ill"), come(limiter, 0, part="ill", deadline=5 * S)
    well = come(limiter, 0, part="well")
    limiter.blame.succeeded("well", 1)
    limiter.release(first, 10)
    assert limiter.blamed(first, 10, LONGEST_GUESS) is None
    assert limiter.admit(10).granted == [well]
    late = come(limiter, 10, part="ill", deadline=5 * S)
    assert not limiter.grant_at_once(late, 10)
    assert (limiter.queued, limiter.aside) == (0, 2)
    assert limiter.earliest(10, part="ill") == LONGEST_GUESS
    limiter.release(well, 20)
    assert not limiter.idle(20)
    assert set(limiter.admit(5 * S).refused) == {behind, late}
    assert behind.state is State.EXPIRED


def test_a_held_part_is_probed_by_one_and_all_go_when_that_is_answered():
    limiter = host(concurrency=10, learn=None)
    limiter.blame.succeeded("well", 1)
    first = run(limiter, 0, part="ill")
    limiter.release(first, 10)
    limiter.blamed(first, 10, S)
    others = [come(limiter, 10, part="ill") for _ in range(3)]
    gone = come(limiter, 10, part="ill")
    limiter.withdraw(gone, 10)
    assert limiter.admit(S).granted == others[:1]
    assert limiter.admit(S + 1).granted == []
    limiter.started(others[0], S)
    limiter.release(others[0], S + 5)
    limiter.succeeded(others[0])
    assert limiter.admit(S + 5).granted == others[1:]


def test_a_second_part_that_was_refused_at_the_same_time_turns_the_hosts_trial_into_earnest():
    limiter = host(concurrency=10, learn=None)
    tickets = [run(limiter, 0, part=part) for part in ("a", "b", "c")]
    for ticket, until, expected in zip(tickets, (40 * S, 50 * S, 60 * S), (10 + TRIAL, 50 * S, 50 * S), strict=True):
        limiter.release(ticket, 10)
        hold = limiter.blamed(ticket, 10, until)
        limiter.refuse_until(ticket, 10, hold, refused=True, hinted=False, block=False)
        assert limiter.pause.until == expected


def test_who_lifts_a_pause_lets_held_parts_go_too():
    limiter = host(concurrency=10, learn=None)
    limiter.blame.succeeded("well", 1)
    first = run(limiter, 0, part="ill")
    limiter.release(first, 10)
    limiter.blamed(first, 10, 60 * S)
    others = [come(limiter, 10, part="ill") for _ in range(3)]
    limiter.pardon()
    assert limiter.admit(11).granted == others


def test_a_part_that_is_answered_frees_no_other_that_is_held():
    limiter = host(concurrency=10, learn=None)
    ill, sick = run(limiter, 0, part="ill"), run(limiter, 16, part="sick")
    for each, until in ((ill, S), (sick, 60 * S)):
        limiter.blame.succeeded("well", each.started_at + 1)
        limiter.release(each, 20)
        assert limiter.blamed(each, 20, until) is None
    first, second, other = (come(limiter, 20, part=part) for part in ("ill", "ill", "sick"))
    assert limiter.admit(20).granted == []
    assert limiter.admit(S).granted == [first]
    limiter.started(first, S)
    limiter.release(first, S + 5)
    limiter.succeeded(first)
    assert limiter.admit(S + 5).granted == [second]
    assert (limiter.aside, other.state) == (1, State.WAITING)
