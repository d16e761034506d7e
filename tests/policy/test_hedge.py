"""Hedge: when a request is late."""

from __future__ import annotations

from datetime import timedelta

import pytest

from comity.errors import OptionsError
from comity.policy.budget import RetryBudget
from comity.policy.hedge import ENOUGH, REMEMBERED, Hedge, Latencies
from comity.policy.options import Policy
from comity.policy.units import NS


@pytest.mark.parametrize(("after", "late"), [(0.3, 300_000_000), ("2s", 2 * NS), (timedelta(seconds=1), NS)])
def test_a_time_is_late_from_the_beginning(after, late):
    assert Latencies(Hedge(after=after)).late == late


def test_what_is_usual_is_known_after_some_answers_and_follows_the_latest():
    latencies = Latencies(Hedge())
    for number in range(ENOUGH - 1):
        latencies.add(number)
    assert latencies.late is None
    latencies.add(1000)
    assert latencies.late == 1000
    for number in range(100 + REMEMBERED):
        latencies.add(number)
    assert latencies.late == 100 + int(0.95 * REMEMBERED)


def test_any_upper_quantile_may_be_asked_for():
    latencies = Latencies(Hedge(after="p50"))
    for number in range(100):
        latencies.add(number)
    assert latencies.late == 50
    assert Hedge(after="p99.9").after == "p99.9"


@pytest.mark.parametrize(
    "options",
    [{"after": "p49"}, {"after": "p100"}, {"after": "soon"}, {"after": None}, {"after": 0}, {"max": 0}, {"max": 11}],
)
def test_what_cannot_be_is_refused(options):
    with pytest.raises(OptionsError, match="hedge"):
        Hedge(**options)
    with pytest.raises(OptionsError, match='it needs "p95", '):
        Policy(hedge=options)


def test_a_time_stands_for_the_hedge_after_it():
    assert Policy(hedge="p90").hedge == Hedge(after="p90")
    assert Policy(hedge=0.3).hedge == Hedge(after="300ms")
    assert Policy(hedge=None).hedge is None


def test_a_hedge_is_paid_from_the_retry_budget_which_there_is_then():
    assert Policy(hedge=Hedge()).retry_budget == RetryBudget()
    assert Policy(hedge=Hedge(), retry_budget=RetryBudget(start=1)).retry_budget == RetryBudget(start=1)
