"""Estimate: how long rows take under limits, by the real gate and no clock."""

from __future__ import annotations

import pytest

from comity.bulk.estimate import Estimate
from comity.bulk.rows import Row
from comity.policy.options import Policy
from comity.policy.rate import Rate


def row(line=1, **options) -> Row:
    return Row(line=line, id=line, url="http://a/", host="a", **options)


def planned(policy: Policy, rows) -> Estimate:
    estimate = Estimate()
    for each in rows:
        estimate.add(each, "a", policy)
    return estimate


@pytest.mark.parametrize(
    ("policy", "number", "seconds"),
    [
        (Policy(), 1000, 0),
        (Policy(rate="50/5s"), 50, 0),
        (Policy(rate="50/5s"), 51, 5),
        (Policy(rate="50/5s"), 500, 45),
        (Policy(rate=["10/s", "30/min"]), 61, 120),
        (Policy(rate=Rate(10, 1, spread=True)), 11, 1),
        (Policy(min_gap=0.25), 9, 2),
    ],
)
def test_the_last_start_is_when_the_limits_allow_it(policy, number, seconds):
    assert planned(policy, (row(line) for line in range(number))).seconds == pytest.approx(seconds)


def test_costs_count_against_their_budgets():
    rows = (row(line, cost={"tokens": 40}) for line in range(5))
    assert planned(Policy(rate="100 tokens/min"), rows).seconds == 120


def test_a_cost_that_can_never_be_admitted_is_counted_apart():
    estimate = planned(Policy(rate="100 tokens/min"), [row(cost={"tokens": 500}), row(cost={"tokens": 5})])
    assert "1 lines that cannot be sent" in "\n".join(estimate.lines())


def test_the_slowest_host_decides():
    estimate = Estimate()
    for line in range(21):
        estimate.add(row(line), "slow", Policy(rate="10/s"))
        estimate.add(row(line), "quick", Policy())
    assert estimate.seconds == 2
    assert estimate.lines()[0].startswith("slow  21 requests  2 s")
