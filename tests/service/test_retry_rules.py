"""RetryRules: from stored fields to decisions. Pure: `now` and `draw` come in. How rows follow from them: test_errand.py."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from comity.errors import OptionsError
from comity.policy.outcome import Outcome
from comity.policy.retry import CallState, GiveUp, RetryAt, decide
from comity.policy.units import NS
from comity.service.retry_rules import RetryRules

MS = 1_000_000
NOW = 1_767_225_600 * NS
LAST = 1 - 2**-53
LOST = Outcome(failure="lost", sent="maybe")
UNSENT = Outcome(failure="connect", sent="no")


def status(code: int, retry_after: int | None = None) -> Outcome:
    return Outcome(status=code, retry_after=retry_after)


def after(outcome: Outcome, *, attempts: int = 0, draw: float = 0.5, **fields: object):
    rules = RetryRules(**fields)
    return judged(rules, rules.call(attempts=attempts), outcome, draw)


def judged(rules: RetryRules, call: CallState, outcome: Outcome, draw: float = 0.5):
    """Do what the engine does at the end of an attempt."""
    call.count(rules.retry, outcome)
    return decide(rules.retry, call, outcome, NOW, draw)


def test_no_ceiling_bounds_the_waits():
    """NP-018"""
    decided = after(status(500), attempts=19, backoff_ms=1_000, max_retries=30)
    assert decided.at - NOW == 2**20 * NS


def test_unless_said_otherwise_there_are_5_retries_from_a_base_of_1_second():
    """NP-005, NP-006"""
    assert (RetryRules().retry.attempts, after(status(500)).at - NOW) == (6, 2 * NS)


@pytest.mark.parametrize("outcome", [status(500), status(429), LOST, UNSENT, Outcome(failure="timeout", sent="yes")])
def test_at_least_once_sends_again_whatever_may_not_have_arrived(outcome):
    assert isinstance(after(outcome), RetryAt)


@pytest.mark.parametrize("outcome", [Outcome(failure="blocked", sent="no"), Outcome(failure="bad")])
def test_what_trying_again_cannot_mend_is_final(outcome):
    """SS-07"""
    assert isinstance(after(outcome), GiveUp)


def test_a_hint_replaces_a_shorter_wait_and_may_be_days_long():
    hour = 3_600 * NS
    assert after(status(503, 160 * hour)) == RetryAt(NOW + 160 * hour, "503", NOW + hour)
    assert after(status(429, 160 * hour)) == RetryAt(NOW + 160 * hour, "429", NOW + 160 * hour)
    assert after(status(429, 169 * hour)).reason == "retry_after"


def test_refusals_are_counted_apart():
    rules = RetryRules(max_retries=1)
    call = rules.call(attempts=0, refusals=4, refusals_in_a_row=4)
    assert isinstance(judged(rules, call, status(429, NS)), RetryAt)
    assert (call.attempts, call.refusals, call.refusals_in_a_row) == (0, 5, 5)


def test_a_deadline_ends_it():
    rules = RetryRules()
    assert judged(rules, rules.call(deadline=NOW + NS), status(500)).reason == "deadline"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_retries": 0}, "max_retries"), ({"max_retries": 1.0}, "max_retries"), ({"max_retries": True}, "max_retries"),
        ({"max_retries": "5"}, "max_retries"), ({"backoff_ms": 99}, "backoff_ms"), ({"backoff_ms": 1e3}, "backoff_ms"),
        ({"strict_4xx": 1}, "strict_4xx"), ({"delivery": "exactly_once"}, "at_least_once"), ({"maxRetries": 1}, "max_retries"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_used_is_named(fields, named):
    """NP-005, NP-006"""
    with pytest.raises(OptionsError, match=named):
        RetryRules(**fields)


@given(attempt=st.integers(1, 14), base=st.integers(100, 100_000), draw=st.floats(0, 1, exclude_max=True))
def test_every_wait_is_within_a_fifth_of_its_base(attempt, base, draw):
    """NP-018, NP-019"""
    decided = after(status(500), attempts=attempt - 1, draw=draw, backoff_ms=base, max_retries=100)
    exact = base * 2**attempt * MS
    assert 0.8 * exact - 1_000 <= decided.at - NOW <= 1.2 * exact + 1_000  # a float has 53 bits


@pytest.mark.parametrize(
    ("backoff_ms", "hint", "own", "others"),
    [
        (86_400_000, None, 2 * 86_400, 60),  # a guess of its own
        (86_400_000, 90, 4 * 86_400, 90),  # beyond what the server asked for, from the second in a row
        (1_000, None, 2, 2),
        (1_000, 3_600, 3_600, 3_600),  # what the server asks for concerns everybody
    ],
)
def test_the_backoff_of_one_delivery_does_not_hold_its_whole_origin(backoff_ms, hint, own, others):
    """PO-04: a lane whose deliveries wait for days after a 429 leaves others alone."""
    rules = RetryRules(backoff_ms=backoff_ms)
    call = rules.call(refusals=1, refusals_in_a_row=0 if hint is None else 1)
    decided = judged(rules, call, status(429, None if hint is None else hint * NS))
    assert ((decided.at - NOW) / NS, (decided.pause - NOW) / NS) == (pytest.approx(own), pytest.approx(others))


def test_the_last_refusal_of_a_delivery_does_not_hold_its_origin_for_long_either():
    rules = RetryRules(backoff_ms=86_400_000)
    decided = judged(rules, rules.call(refusals=10), status(429))
    assert (decided.reason, decided.pause - NOW) == ("refusals", 60 * NS)
