"""Numbers at the edge: one small grammar, exact nanoseconds."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from comity.errors import OptionsError
from comity.policy.units import (
    FOREVER,
    NS,
    as_ns,
    decimal,
    duration,
    flag,
    integer,
    is_off,
    number,
    parse_integer,
    parse_rate,
    priority,
    required,
    seconds,
    size,
    span,
    to_seconds,
    unit_name,
)

MINUTE = 60 * NS


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (0.1, 100_000_000),
        (1.1, 1_100_000_000),
        (0.0000000005, 1),
        (0.0000000004, 0),
        (3, 3 * NS),
        (1e9 + 0.5, 10**18 + NS // 2),
    ],
)
def test_seconds_become_whole_nanoseconds_rounded_half_up(value, ns):
    assert seconds(value) == ns


@given(st.integers(0, 86_400_000))
def test_the_milliseconds_of_a_day_survive_the_way_to_seconds_and_back(ms):
    assert seconds(to_seconds(ms * 1_000_000)) == ms * 1_000_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("250ms", 0.25), ("60s", 60.0), ("5min", 300.0), ("2h", 7_200.0), ("1d", 86_400.0), ("1.5 s", 1.5), ("1h30m", 5_400.0),
        ("90", 90.0), (" 0.5 ", 0.5), ("0", 0.0), (7, 7.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), ("100us", 0.0001),
        ("5 µs", 0.000005), ("7000000 ns", 0.007), (FOREVER, FOREVER), ("off", None), ("None", None), (None, None),
    ],
)  # fmt: skip
def test_a_duration_is_seconds_a_timedelta_or_text_with_a_unit(given, expected):
    """PF-031 PF-033: durations such as 250ms, 60s and 5min parse."""
    assert duration(given, "min_gap") == expected


@pytest.mark.parametrize(
    "given",
    ["5 parsecs", "", " ", "ms", "-1s", "-1", "+1", "1_000", "٣s", "1e3", "nan", "inf", "1s2", "1..5s", "1s,", True, False, math.nan,
     math.inf, -0.1, -1, 10**400, FOREVER * 2, timedelta(seconds=-1), "99999d" * 40, [1], b"1s"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_options_name(given):
    """PF-033 EN-05: "5 parsecs" is no duration, nor are booleans, NaN, "1_000" or digits of other scripts."""
    with pytest.raises(OptionsError, match="min_gap") as caught:
        duration(given, "min_gap")
    assert caught.value.option == "min_gap"
    assert caught.value.value is given


def test_a_duration_below_its_minimum_is_refused():
    with pytest.raises(OptionsError, match=r"at least 0\.001 s"):
        duration(0, "timeout.idle", minimum=0.001)


def test_a_required_duration_cannot_be_off():
    assert required("2s", "per") == 2.0
    assert required(0, "base") == 0.0
    with pytest.raises(OptionsError, match="cannot be off"):
        required("off", "per")


def test_checked_seconds_become_nanoseconds_and_none_stays_none():
    assert as_ns(0.25) == 250_000_000
    assert as_ns(None) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100/min", (100, MINUTE, "requests")),
        ("60/min", (60, MINUTE, "requests")),
        ("10/s", (10, NS, "requests")),
        ("50/5s", (50, 5 * NS, "requests")),
        ("5000/h", (5_000, 60 * MINUTE, "requests")),
        ("90000 tokens/min", (90_000, MINUTE, "tokens")),
        ("7 Input-Tokens / 2 days", (7, 2 * 1_440 * MINUTE, "input-tokens")),
        ("1 request/500ms", (1, NS // 2, "requests")),
        ("20/1m30s", (20, 90 * NS, "requests")),
    ],
)
def test_a_rate_is_a_count_per_time(text, expected):
    """PF-029: 60/min, 10/s and 50/5s are starts per window."""
    assert parse_rate(text) == expected


@pytest.mark.parametrize(
    "text",
    ["ten/s", "60/fortnight", "0/s", "10/0s", "-1/s", "1.5/s", "10", "/s", "10/", "10/5", "1_000/s", "٣/s", "10/s/s", "", 5, None,
     "1/99999999999d"],
)  # fmt: skip
def test_what_is_no_rate_is_refused_with_an_example(text):
    """PF-035 EN-03 EN-05: "ten/s" and "60/fortnight" are no rates."""
    with pytest.raises(OptionsError, match=r"API_RATE=.*100/min"):
        parse_rate(text, "API_RATE")


@pytest.mark.parametrize("text", ["off", "0", "none", "no", "false", " OFF "])
def test_a_limit_is_switched_off_by_a_few_words(text):
    """PF-034 EN-05: off, 0, no and false mean that there is no limit."""
    assert is_off(text)


@pytest.mark.parametrize("text", ["on", "true", "1", "", "10/s"])
def test_other_words_switch_nothing_off(text):
    assert not is_off(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0, 0), (1000, 1000), ("1000", 1000), ("64 MB", 64 << 20), ("512k", 512 << 10), (" 1 GiB ", 1 << 30), ("5b", 5), ("off", None),
     (None, None)],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(given, expected):
    assert size(given, "max_body") == expected


@pytest.mark.parametrize("given", ["", "big", "-1", "1.5MB", "1TB", "٣", -1, 1.5, True, b"1"])
def test_a_wrong_size_is_told_with_the_option_the_range_and_an_example(given):
    with pytest.raises(OptionsError, match=r'max_body=.*0 bytes or more such as 1000, "512k"'):
        size(given, "max_body")


@pytest.mark.parametrize("value", [True, 2.0, 2.5, "3", None, 0, 11])
def test_a_whole_number_is_an_int_within_its_bounds(value):
    assert integer(10, "concurrency", 1, 10) == 10
    with pytest.raises(OptionsError, match="a whole number, 1 up to 10"):
        integer(value, "concurrency", 1, 10)


def test_a_whole_number_may_have_no_upper_bound():
    assert integer(10**30, "attempts", 1) == 10**30
    with pytest.raises(OptionsError, match="1 or more"):
        integer(0, "attempts", 1)


@pytest.mark.parametrize("text", ["1_000", "٣", "three", "-1", "+1", "1.0", "", "9" * 19, "²"])
def test_a_whole_number_is_read_from_ascii_digits_only(text):
    """EN-05: int() would take "1_000" and digits of other scripts."""
    assert parse_integer(" 12 ", "API_RETRIES", 0) == 12
    assert parse_integer("9" * 18, "API_RETRIES", 0) == 10**18 - 1
    with pytest.raises(OptionsError, match="API_RETRIES"):
        parse_integer(text, "API_RETRIES", 0)


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "2", None, 0.5, 1_001])
def test_a_number_is_finite_and_within_its_bounds(value):
    assert [number(each, "factor", 1, 1_000) for each in (1, 2, 1_000)] == [1.0, 2.0, 1_000.0]
    with pytest.raises(OptionsError, match="a number from 1 to 1000"):
        number(value, "factor", 1, 1_000)


def test_a_flag_is_a_boolean():
    assert flag(True, "spread") is True
    with pytest.raises(OptionsError, match="True or False"):
        flag(1, "spread")


@pytest.mark.parametrize("name", ["", "Tokens", "2x", "a b", 5, None])
def test_the_name_of_a_budget_is_a_lower_case_word(name):
    assert unit_name("input-tokens", "unit") == "input-tokens"
    with pytest.raises(OptionsError, match="unit"):
        unit_name(name, "unit")


@pytest.mark.parametrize("value", [-1, 10, True, 2.5, "high", "5", None])
def test_a_priority_is_0_to_9(value):
    """CP-060: 0 is first, 9 last; -1 and 10 are refused, as are booleans, fractions and words."""
    assert [priority(each) for each in (0, 5, 9)] == [0, 5, 9]
    with pytest.raises(OptionsError, match="priority"):
        priority(value)


@pytest.mark.parametrize(
    ("text", "unit", "ns"),
    [
        ("2", NS, 2 * NS),
        ("0.25", NS, NS // 4),
        ("1.5", NS, 3 * NS // 2),
        ("1500", 1_000_000, 1_500_000_000),
        ("0.0000000001", NS, 1),
    ],
)
def test_a_decimal_is_exact_and_never_shorter_than_written(text, unit, ns):
    assert decimal(text, unit) == ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [("6m0s", 360 * NS), ("20ms", 20_000_000), ("1h2m3.5s", 3_723_500_000_000), ("1 ", None), ("", None)],
)
def test_a_span_has_units(text, ns):
    assert span(text) == ns


@given(st.text(max_size=40))
def test_no_text_makes_a_parser_fail_or_go_below_zero(text):
    for read in (decimal, span):
        found = read(text)
        assert found is None or found >= 0
    with suppress(OptionsError):
        assert (duration(text, "x") or 0) >= 0
    with suppress(OptionsError):
        assert min(parse_rate(text)[:2]) > 0
    with suppress(OptionsError):
        assert parse_integer(text, "x", 0) >= 0


def test_a_length_beyond_all_use_is_told_what_is_the_longest():
    with pytest.raises(OptionsError, match="at most 100 years"):
        duration(1e12, "delay")
