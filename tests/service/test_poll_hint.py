"""poll_hint: what a status answer says about the next look, and that the client follows it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from comity.client.async_client import AsyncClient
from comity.policy.units import NS, seconds
from comity.service.poll_hint import body, headers, next_poll
from comity.testing.scripted_transport import Answer, ScriptedTransport
from comity.testing.virtual_clock import VirtualClock

STATUS = {"id": "1", "status": "pending", "attemptCount": 0, "nextRetryAt": None}


@pytest.mark.parametrize(("elapsed", "wait"), [(0, 2), (5, 4), (15, 8), (30, 16)])
def test_unfinished_work_is_looked_at_by_the_time_that_has_passed(elapsed, wait):
    """NP-040, NP-041"""
    assert next_poll(finished=False, elapsed=seconds(elapsed)) == wait * NS


@pytest.mark.parametrize(("due", "wait"), [(0, 2), (1.9, 2), (2.1, 2.1), (3600, 3600), (-5, 2)])
def test_before_work_is_due_there_is_nothing_to_see(due, wait):
    """NP-041: or the time until the request is due, if that is longer."""
    assert next_poll(finished=False, elapsed=0, due_in=seconds(due)) == seconds(wait)


def test_finished_work_names_no_next_look():
    """NP-043"""
    wait = next_poll(finished=True, elapsed=0, due_in=NS)
    assert (wait, body(STATUS, wait), headers(wait)) == (None, STATUS, {})


@pytest.mark.parametrize(
    ("wait", "text", "ms"), [(1, "1", 1), (2 * NS, "2", 2_000), (2 * NS + 1, "3", 2_001), (0, "1", 0)]
)
def test_times_are_rounded_up_and_a_retry_after_is_never_0(wait, text, ms):
    """NP-046"""
    assert headers(wait) == {"Retry-After": text}
    assert body({}, wait) == {"nextPollMs": ms}


def test_who_does_not_know_the_hint_reads_the_same_status():
    """NP-047"""
    said = body(STATUS, 2 * NS)
    assert list(said) == [*STATUS, "nextPollMs"]
    assert said | STATUS == said
    assert "nextPollMs" not in STATUS


def test_an_envelope_holds_all_of_it():
    """NP-048"""
    said = body(STATUS, 3 * NS, percent=12.5, envelope=True)
    assert said == {"data": {**STATUS, "percentComplete": 12.5, "nextPollMs": 3_000}}


@pytest.mark.parametrize("envelope", [False, True])
def test_a_client_looks_when_it_was_told_to(envelope):
    """NP-040, NP-044, NP-046"""
    clock, looks = VirtualClock(), []

    def status(_: object) -> Answer:
        looks.append(clock.now())
        elapsed = clock.now() - looks[0]
        wait = next_poll(finished=elapsed >= 20 * NS, elapsed=elapsed, due_in=9 * NS - elapsed)
        code = 200 if wait is None else 202
        return Answer(code, headers=headers(wait), json=body({"status": "?"}, wait, envelope=envelope))

    api = AsyncClient("http://h", transport=ScriptedTransport(status), clock=clock)
    assert clock.run(api.poll("/requests/1/result")).status_code == 200
    assert 9 * NS <= looks[1] - looks[0] <= 1.2 * 9 * NS
    for before, after in pairwise(looks[1:]):
        told = next_poll(finished=False, elapsed=before - looks[0])
        assert told <= after - before <= 1.2 * told
