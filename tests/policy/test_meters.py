"""Meters: what was sent before a limiter began counts against its rates as if it had seen it. Pure: times come in, ns."""

from __future__ import annotations

import pytest

from comity.policy.meters import Meters
from comity.policy.rate import Rate

NOW = 1_000_000_000_000
S = 1_000_000_000


def meters(*rates: Rate) -> Meters:
    return Meters(rates, NOW)


@pytest.mark.parametrize(
    ("rate", "free_in"),
    [
        (Rate(2, "10s"), 4),  # the first one's first byte was 6 s ago
        (Rate(2, "10s", measured="server"), 5),  # the second one's answer came first, 5 s ago
        (Rate(3, "10s"), 0),
        (Rate(2, "3s"), 0),
    ],
)
def test_sends_of_before_are_counted_from_where_the_rate_is_measured(rate, free_in):
    made = meters(rate)
    made.recount([(NOW - 6 * S, NOW - 4 * S, {}), (NOW - 5 * S, NOW - 5 * S, {})])
    assert made.earliest(made.ordinary, NOW) == NOW + free_in * S


def test_budgets_are_counted_by_name_and_limits_that_were_lowered_since_stay_in_debt():
    made = meters(Rate(10, "10s"), Rate(100, "10s", unit="tokens"))
    made.recount([(NOW - 5 * S, NOW - 5 * S, {"tokens": 150, "others": 7})])
    assert made.earliest((1, 0), NOW) == NOW
    assert made.earliest((1, 1), NOW) == NOW + 5 * S


def test_a_send_that_cost_nothing_leaves_nothing():
    made = meters(Rate(1, "10s"))
    made.recount([(NOW - S, NOW - S, {"requests": 0})])
    assert made.idle(NOW)
