"""Outcome, Attempt, Timings and Event: values that say what happened."""

from __future__ import annotations

import json
import pickle

import pytest

from comity.policy.attempt import Attempt, Timings, joined
from comity.policy.events import Event
from comity.policy.outcome import Outcome

PHASES = {
    "queue": 0.5,
    "pool": 0.25,
    "dns": 1.0,
    "connect": 2.0,
    "tls": 4.0,
    "upload": 8.0,
    "response": 16.0,
    "download": 32.0,
}


@pytest.mark.parametrize(
    ("outcome", "ok", "refused"),
    [
        (Outcome(status=200), True, False),
        (Outcome(status=304), True, False),
        (Outcome(status=399), True, False),
        (Outcome(status=400), False, False),
        (Outcome(status=429), False, True),
        (Outcome(status=500), False, False),
        (Outcome(failure="timeout", sent="maybe"), False, False),
    ],
)
def test_an_outcome_is_ok_below_400_and_refused_at_429(outcome, ok, refused):
    assert (outcome.ok, outcome.refused) == (ok, refused)


def test_the_total_of_timings_is_the_sum_of_the_phases():
    """HT-048"""
    timings = Timings(**PHASES)
    assert timings.total == sum(PHASES.values()) == 63.75
    assert timings.as_dict() == {**PHASES, "total": 63.75}


def test_a_phase_that_did_not_happen_is_0():
    """HT-049"""
    assert set(Timings().as_dict().values()) == {0.0}
    assert Timings().total == 0.0


def test_the_time_in_the_queue_is_set_apart_from_the_other_phases():
    assert Timings(**PHASES).queued_for(9.0) == Timings(**{**PHASES, "queue": 9.0})


def test_an_attempt_reads_as_plain_values():
    attempt = Attempt(number=2, started_at=1.5, waited=0.25, status=503, timings=Timings(dns=1.0), retry_after=3.0)
    row = json.loads(json.dumps(attempt.as_dict()))
    assert row.pop("timings")["dns"] == 1.0
    assert row == {
        "number": 2,
        "started_at": 1.5,
        "waited": 0.25,
        "status": 503,
        "error": None,
        "sent": "yes",
        "retry_after": 3.0,
        "decision": "done",
    }


def test_an_attempt_survives_a_pickle_and_does_not_change():
    attempt = Attempt(number=2, started_at=1.5, waited=0.25, timings=Timings(dns=1.0))
    again = pickle.loads(pickle.dumps(attempt))
    assert (again, hash(again), repr(again)) == (attempt, hash(attempt), repr(attempt))
    assert repr(attempt).startswith("Attempt(number=2, started_at=1.5, waited=0.25, status=None, ")
    for record in (attempt, attempt.timings):
        with pytest.raises(AttributeError):
            record.number = record.dns = 1


def test_the_attempts_of_a_second_call_are_numbered_on():
    calls = [[Attempt(number=number, started_at=at, waited=0.0) for number in (1, 2)] for at in (0.0, 9.0)]
    assert [(each.number, each.started_at) for each in joined(*calls)] == [(1, 0.0), (2, 0.0), (3, 9.0), (4, 9.0)]


def test_an_event_reads_as_plain_values():
    event = Event(type="paused", host="api.example", at=12.5, number=1, status=429, wait=5.0)
    assert json.loads(json.dumps(event.as_dict())) == {
        "type": "paused",
        "host": "api.example",
        "at": 12.5,
        "number": 1,
        "status": 429,
        "error": None,
        "wait": 5.0,
        "reason": "",
        "limit": None,
        "rate": None,
    }


@pytest.mark.parametrize("value", [Outcome(status=200), Event(type="queued", host="a", at=0.0)])
def test_what_happened_does_not_change(value):
    with pytest.raises(AttributeError):
        value.status = 1
