"""Engines: one table of scenarios through both, in virtual time."""

from __future__ import annotations

import pytest

from tests.engine import rows
from tests.engine.scenarios import Play, Scenario

on_both_engines = pytest.mark.parametrize("engine", ["async", "threads"])


def each(scenarios):
    return pytest.mark.parametrize("scenario", scenarios, ids=str)


def plays_out(scenario: Scenario, engine: str) -> None:
    """Play a scenario and compare every start, end and count with its row."""
    play = Play(scenario)
    seen = play.on(engine)
    assert [(tuple(call.starts), call.ends) for call in seen] == [(call.starts, call.ends) for call in scenario.asked]
    for found, asked in zip(seen, scenario.asked, strict=True):
        assert asked.until in {None, found.until}
        assert len(found.attempts) == len(asked.starts)
    assert play.stats() == (0, 0)


@on_both_engines
@each(rows.ATTEMPTS)
def test_a_call_is_sent_as_often_as_its_outcomes_ask_for(scenario, engine):
    """CP-025..029 CP-075..077 CP-081 HT-015 HT-017 HT-018 HT-025..027 PF-020 PF-023 PF-025 RY-05: sends and their waits."""
    plays_out(scenario, engine)


@on_both_engines
@each(rows.REFUSALS)
def test_a_refusal_by_rate_is_waited_out_by_everybody(scenario, engine):
    """CP-030 CP-074 PF-012 PF-014 PF-015 PF-019 PR-05: 429 and Retry-After, pause and ramp."""
    plays_out(scenario, engine)


@on_both_engines
@each(rows.BLOCKS)
def test_a_wait_beyond_the_cap_blocks_the_host_and_nothing_is_sent(scenario, engine):
    """PF-017 PF-018: the call ends at once, and so does every other to this host until then."""
    plays_out(scenario, engine)


@on_both_engines
@each(rows.WINDOWS)
def test_no_send_starts_before_every_limit_allows_it(scenario, engine):
    """CP-005 CP-006 CP-008..012 CP-083 LA-01 LA-03 LA-05 PF-008..011: rates, spacing, concurrency, costs."""
    plays_out(scenario, engine)


@on_both_engines
@each(rows.ORDER)
def test_who_goes_next_is_decided_when_there_is_room(scenario, engine):
    """CP-060 CP-082 PR-01: priorities, ageing, retries, held slots, turns between hosts."""
    plays_out(scenario, engine)


@on_both_engines
@each(rows.LIMITS_OF_WAITING)
def test_nobody_waits_longer_than_allowed(scenario, engine):
    """CA-03 LA-08 PF-026 UQ-03: deadlines, queue_timeout, a full queue, closing."""
    plays_out(scenario, engine)
