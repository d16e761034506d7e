"""Transitions: what becomes of a delivery when an attempt ends or its worker is lost. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from comity.store.records import Ended
from comity.store.transitions import MOST_CRASHES, Facts, Step, after_attempt, after_crash

NOW = 1_000
FACTS = Facts(mode="at_least_once", attempts=1, max_attempts=6, crashes=0, cancelling=False, deadline=None)
RETRY = Ended(then="retry", wait=50, status=500)

facts = st.builds(
    Facts,
    mode=st.sampled_from(["at_least_once", "at_most_once"]),
    attempts=st.integers(1, 8),
    max_attempts=st.integers(1, 8),
    crashes=st.integers(0, 8),
    cancelling=st.booleans(),
    deadline=st.none() | st.integers(0, 2_000),
)
endings = st.builds(
    Ended,
    then=st.sampled_from(["completed", "failed", "retry"]),
    wait=st.integers(-10, 1_000),
    reason=st.sampled_from(["status", "attempts"]),
    refused=st.booleans(),
    sent=st.sampled_from(["no", "maybe", "yes"]),
)


@pytest.mark.parametrize(
    ("changed", "ended", "step"),
    [
        ({}, RETRY, Step("retrying", 1_050)),
        ({}, Ended(then="completed"), Step("completed")),
        ({}, Ended(then="failed", reason="status"), Step("failed", reason="status")),
        ({"cancelling": True}, RETRY, Step("cancelled")),
        ({"cancelling": True}, Ended(then="completed"), Step("completed")),
        ({"deadline": 1_050}, RETRY, Step("failed", reason="deadline")),
        ({"deadline": 1_051}, RETRY, Step("retrying", 1_050)),
        ({"mode": "at_most_once"}, RETRY, Step("failed", reason="outcome unknown")),
        ({"mode": "at_most_once"}, replace(RETRY, refused=True), Step("retrying", 1_050)),
        ({"mode": "at_most_once"}, replace(RETRY, sent="no"), Step("retrying", 1_050)),
    ],
)
def test_an_attempt_leads_to(changed, ended, step):
    assert after_attempt(replace(FACTS, **changed), ended, NOW) == step


@pytest.mark.parametrize(
    ("changed", "step"),
    [
        ({}, Step("retrying", NOW)),
        ({"crashes": MOST_CRASHES}, Step("retrying", NOW)),
        ({"crashes": MOST_CRASHES + 1}, Step("failed", reason="poison")),
        ({"attempts": 6}, Step("failed", reason="worker lost")),
        ({"cancelling": True, "crashes": 9}, Step("cancelled")),
        ({"mode": "at_most_once"}, Step("failed", reason="outcome unknown")),
        ({"deadline": NOW}, Step("failed", reason="deadline")),
    ],
)
def test_a_lost_worker_leads_to(changed, step):
    assert after_crash(replace(FACTS, **changed), NOW) == step


@given(facts, endings)
def test_a_step_is_an_end_or_has_a_time_that_is_not_past(known, ended):
    for step in (after_attempt(known, ended, NOW), after_crash(known, NOW)):
        assert step.state in {"completed", "failed", "cancelled"} or step.due_at >= NOW
        assert (step.reason is not None) == (step.state == "failed")


@given(facts, endings)
def test_what_may_be_sent_once_only_is_never_sent_again_when_it_may_have_arrived(known, ended):
    once = replace(known, mode="at_most_once")
    assert after_crash(once, NOW).state != "retrying"
    if ended.sent != "no" and not ended.refused:
        assert after_attempt(once, ended, NOW).state != "retrying"


@given(facts, endings)
def test_what_is_being_cancelled_is_never_sent_again(known, ended):
    cancelling = replace(known, cancelling=True)
    assert "retrying" not in {after_attempt(cancelling, ended, NOW).state, after_crash(cancelling, NOW).state}
