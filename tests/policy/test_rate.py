"""Rate: the option value. How it limits is shown by the windows' tests."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta

import pytest

from comity.errors import OptionsError
from comity.policy.rate import Rate, arrivals
from comity.policy.units import NS


@pytest.mark.parametrize("per", [5, 5.0, "5s", timedelta(seconds=5)])
def test_a_rate_is_a_count_per_window(per):
    """CP-009 CP-010: `max` starts in one window of `per`."""
    rate = Rate(50, per)
    assert (rate.max, rate.per, rate.per_ns, rate.unit) == (50, 5.0, 5 * NS, "requests")


def test_the_references_windows_of_a_minute_and_an_hour():
    """CP-010: a window of 60000 ms is a minute, 3600000 ms an hour."""
    assert Rate(100, "60000ms") == Rate.of("100/min")
    assert Rate(1_000, "3600000ms") == Rate.of("1000/h")


def test_a_rate_is_sliding_and_measured_at_the_client_unless_asked():
    rate = Rate(1, 1)
    assert (rate.kind, rate.measured, rate.spread, rate.burst) == ("sliding", "client", False, None)


def test_text_and_rates_are_both_taken():
    """PF-029: 50/5s is 50 starts in 5 s."""
    rate = Rate.of("90000 tokens/min")
    assert rate == Rate(90_000, 60, unit="tokens")
    assert Rate.of(rate) is rate


@pytest.mark.parametrize("text", ["50/5.0s", "90000 tokens/60.0s", "3/0.25s"])
def test_a_rate_prints_as_it_reads(text):
    rate = Rate.of(text)
    assert Rate.of(str(rate)) == rate


def test_a_rate_can_be_changed_but_not_in_place():
    rate = Rate.of("50/5s")
    assert replace(rate, measured="server").per_ns == rate.per_ns
    with pytest.raises(FrozenInstanceError):
        rate.max = 51


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max": 0}, "max"), ({"max": 2.5}, "max"), ({"max": True}, "max"), ({"per": 0}, "per"), ({"per": None}, "per"),
        ({"per": "off"}, "per"), ({"kind": "slidin"}, "did you mean sliding"), ({"measured": 1}, "measured"),
        ({"measured": "upstream"}, "measured"), ({"spread": "yes"}, "spread"), ({"burst": 0}, "burst"), ({"unit": "a b"}, "unit"),
        ({"burst": 5, "spread": True}, "burst"), ({"burst": 5, "kind": "fixed"}, "burst"), ({"wndow": 3}, "wndow"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(options, named):
    with pytest.raises(OptionsError, match=named):
        Rate(**{"max": 10, "per": 1} | options)


def test_a_bucket_may_be_asked_for():
    assert Rate(10, 1, burst=20).burst == 20
    assert Rate(1, "1ms", burst=1).per_ns == 1_000_000


def test_text_is_a_whole_rate_with_options_of_its_own():
    assert Rate("90000 tokens/min", spread=True) == Rate(90000, 60, unit="tokens", spread=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("50/5s", 5), "text says window and unit itself"),
        (("50/5",), 'did you mean "50/5s"?'),
        ((50,), "a rate is so many per so long"),
    ],
)
def test_half_a_rate_is_refused_with_what_is_missing(given, message):
    with pytest.raises(OptionsError, match=re.escape(message)):
        Rate(*given)


def test_a_rate_of_arrivals_counts_requests_at_the_server():
    assert arrivals("50/5s") == Rate(50, 5, measured="server")
    with pytest.raises(OptionsError, match="it counts tokens"):
        arrivals("2 tokens/s")
    with pytest.raises(OptionsError, match=re.escape('did you mean "50/5s"?')):
        arrivals("50/5")
