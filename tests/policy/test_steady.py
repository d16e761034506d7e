"""Steady: where nothing adapts and no rate is known, refusals alone teach the rate."""

from __future__ import annotations

import pytest

from comity.cli.simulation import Simulation, simulate
from comity.policy.controller import Ending
from comity.policy.feedback import end_attempt
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.pause import NO_CAP
from comity.policy.retry import RetryAt
from comity.policy.steady import Steady
from comity.policy.ticket import Ticket
from comity.policy.units import NS

MS = NS // 1000


def played(words: str, wanted: int = 1000, **policy: object) -> Simulation:
    done = simulate(words, Policy(**policy), wanted)  # type: ignore[arg-type]
    assert done.ok == wanted
    return done


@pytest.mark.parametrize(
    "words", ["bucket 40/s burst 40 hint no", "bucket 40/s burst 40", "bucket 5/s burst 40 hint no"]
)
def test_a_hidden_bucket_is_used_up_with_hardly_a_refusal(words):
    done = played(f"{words} latency 20ms jitter 20ms")
    assert done.waste < 0.03
    assert done.goodput > 0.9 * float(done.model.capacity(done.took) or 0) * NS / done.took


def test_a_window_of_a_minute_is_used_up():
    done = played("fixed 100/min latency 50ms", 500)
    assert done.waste < 0.05
    assert done.took < 6 * 60 * NS


@pytest.mark.parametrize("words", ["bucket 1/s burst 1 latency 50ms", "window 30/min latency 50ms"])
@pytest.mark.parametrize("adaptive", [None, "ema"])
def test_a_slow_limit_is_used_up_with_few_refusals(words, adaptive):
    done = played(words, concurrency=20, adaptive=adaptive)
    assert done.waste < 0.06
    assert done.goodput > 0.85 * float(done.model.capacity(done.took) or 0) * NS / done.took


def test_a_window_that_names_no_time_is_probed_seldom():
    done = played("fixed 30/min latency 50ms hint no", concurrency=20, adaptive=True)
    assert done.waste < 0.3


def test_a_falling_and_rising_limit_is_followed():
    words = "bucket 24/s burst 24 latency 20ms hint no at 30s bucket 6/s burst 6 at 60s bucket 24/s burst 24"
    done = played(words, 1500)
    assert done.waste < 0.03
    assert done.goodput > 0.85 * float(done.model.capacity(done.took) or 0) * NS / done.took


def test_of_100_at_once_few_more_are_refused_than_were_under_way():
    done = played("window 20/s latency 5ms", 100)
    assert done.model.refused <= 10 + 2


def refused(limiter: HostLimiter) -> None:
    tickets = [Ticket(5, limiter.meters.ordinary) for _ in range(3)]
    for ticket in tickets:
        assert limiter.grant_at_once(ticket, 0)
        limiter.started(ticket, 0)
    outcome = Outcome(status=429, retry_after=NS)
    for ticket in tickets:
        end_attempt(limiter, ticket, outcome, RetryAt(2 * NS, "429", pause=2 * NS), NS)


@pytest.mark.parametrize("policy", [{"rate": "5/s"}, {"learn": None}, {"learn": "gap"}])
def test_nothing_is_learned_beside_another_law_or_where_a_rate_is_known(policy):
    limiter = HostLimiter(Policy(**policy), 0)
    refused(limiter)
    assert limiter.adaptive is None


def test_it_is_made_at_the_first_refusal_and_one_probe_ends_the_episode():
    limiter = HostLimiter(Policy(), 0)
    assert limiter.adaptive is None
    refused(limiter)
    steady = limiter.adaptive
    assert isinstance(steady, Steady)
    assert (steady.refused, steady.rate, steady.limit, steady.cap) == (True, None, None, NO_CAP)
    probe = Ticket(5, ())
    assert not limiter.grant_at_once(probe, 2 * NS - 1)
    assert limiter.grant_at_once(probe, 2 * NS)
    limiter.started(probe, 2 * NS)
    end_attempt(limiter, probe, Outcome(status=404), RetryAt(0, "no"), 2 * NS)
    assert not steady.refused


def test_what_was_never_sent_teaches_nothing():
    steady = Steady(0, 10, 3)
    steady.end((7, 0, 0), NS, Ending.REFUSED, None, None)
    start = steady.begin(1, 2 * NS)
    steady.end(start, 2 * NS, Ending.NOTHING, None, None)
    assert steady.refused
    steady.tick(3 * NS)
    assert steady.refused


@pytest.mark.parametrize("policy", [{}, {"adaptive": True}], ids=["refusals alone", "auto"])
def test_a_long_window_that_says_nothing_is_not_asked_every_second(policy):
    done = played("fixed 100/min latency 50ms hint no", 300, **policy)
    assert done.waste < 0.15
    assert done.took < 4.5 * 60 * NS
