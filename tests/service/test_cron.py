"""Cron: which instants an expression names, and what happens where clocks are set. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from comity.errors import OptionsError
from comity.policy.units import NS
from comity.service.cron import Cron

BERLIN = "Europe/Berlin"  # +1; forward at 2026-03-29 02:00, back at 2026-10-25 03:00
LORD_HOWE = "Australia/Lord_Howe"  # +10:30; back by half an hour at 2026-04-05 02:00, forward at 2026-10-04 02:00
ZONES = ("UTC", BERLIN, LORD_HOWE, "America/New_York", "Africa/Casablanca", "Asia/Kathmandu", "Pacific/Apia")


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * NS


def due(expression: str, after: str, count: int = 1, zone: str = "UTC") -> list[str]:
    """Return the next times with their offsets, "MM-DD HH:MM+hh:mm"."""
    cron, instant, found = Cron(expression, zone), ns(after), []
    for _ in range(count):
        instant = cron.next(instant)
        local = datetime.fromtimestamp(instant // NS, ZoneInfo(zone))
        found.append(f"{local:%m-%d %H:%M}{local:%z}")
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", ["01-01 00:01", "01-01 00:02", "01-01 00:03"]),
        ("*/20 * * * *", ["01-01 00:20", "01-01 00:40", "01-01 01:00"]),
        ("0 * * * *", ["01-01 01:00", "01-01 02:00", "01-01 03:00"]),
        ("5-59/25 0 * * *", ["01-01 00:05", "01-01 00:30", "01-01 00:55"]),
        ("30 6 * * *", ["01-01 06:30", "01-02 06:30", "01-03 06:30"]),
        ("0 9,17 * * *", ["01-01 09:00", "01-01 17:00", "01-02 09:00"]),
        ("0 22-23,4 * * *", ["01-01 04:00", "01-01 22:00", "01-01 23:00"]),
        ("0 0 * * mon-fri", ["01-02 00:00", "01-05 00:00", "01-06 00:00"]),  # the 1st is a Thursday
        ("0 0 * * 1-5/2", ["01-02 00:00", "01-05 00:00", "01-07 00:00"]),
        ("0 0 * * 0", ["01-04 00:00", "01-11 00:00", "01-18 00:00"]),
        ("0 0 * * 7", ["01-04 00:00", "01-11 00:00", "01-18 00:00"]),
        ("0 0 * * SAT-SUN", ["01-03 00:00", "01-04 00:00", "01-10 00:00"]),
        ("0 0 * * 6-7", ["01-03 00:00", "01-04 00:00", "01-10 00:00"]),
        ("0 0 * * */3", ["01-03 00:00", "01-04 00:00", "01-07 00:00"]),
        ("0 0 31 * *", ["01-31 00:00", "03-31 00:00", "05-31 00:00"]),
        ("0 0 1 jan,Jul *", ["07-01 00:00", "01-01 00:00", "07-01 00:00"]),
        ("0 0 1 */5 *", ["06-01 00:00", "11-01 00:00", "01-01 00:00"]),
        ("  0   0 1\t2 *  ", ["02-01 00:00", "02-01 00:00", "02-01 00:00"]),
        ("59 23 31 12 *", ["12-31 23:59", "12-31 23:59", "12-31 23:59"]),
        ("0 0 13 * fri", ["01-02 00:00", "01-09 00:00", "01-13 00:00"]),  # either
        ("0 0 */2 * fri", ["01-09 00:00", "01-23 00:00", "02-13 00:00"]),  # both
        ("0 0 13 * */5", ["02-13 00:00", "03-13 00:00", "09-13 00:00"]),  # both
    ],
)
def test_an_expression_names_its_times(expression, expected):
    assert due(expression, "2026-01-01T00:00Z", 3) == [f"{each}+0000" for each in expected]


def test_the_29th_of_february_is_waited_for_over_a_century_without_one():
    cron = Cron("0 0 29 2 *")
    assert cron.next(ns("2096-02-29T00:00Z")) == ns("2104-02-29T00:00Z")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("2026-01-01T11:59:59Z", "2026-01-01T12:00Z"),
        ("2026-01-01T12:00:00Z", "2026-01-02T12:00Z"),
        ("2026-01-01T12:00:59Z", "2026-01-02T12:00Z"),
        ("1969-12-31T12:00:00Z", "1970-01-01T12:00Z"),
    ],
)
def test_the_next_time_is_later_than_the_one_given(after, expected):
    assert Cron("0 12 * * *").next(ns(after)) == ns(expected)


def test_parts_of_a_second_count():
    noon = ns("2026-01-01T12:00Z")
    assert Cron("0 12 * * *").next(noon - 1) == noon
    assert Cron("0 12 * * *").next(noon + 1) == noon + 86_400 * NS


def test_a_zone_has_its_own_midnight_in_summer_and_winter():
    assert due("0 0 1 * *", "2026-06-15T00:00Z", 5, BERLIN) == [
        "07-01 00:00+0200", "08-01 00:00+0200", "09-01 00:00+0200", "10-01 00:00+0200", "11-01 00:00+0100"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["03-28 02:30+0100", "03-29 03:00+0200", "03-30 02:30+0200"]),
        ("0 2 * * *", ["03-28 02:00+0100", "03-29 03:00+0200", "03-30 02:00+0200"]),
        ("0 3 * * *", ["03-28 03:00+0100", "03-29 03:00+0200", "03-30 03:00+0200"]),
        ("0 2,3 29 3 *", ["03-29 03:00+0200", "03-29 02:00+0200", "03-29 03:00+0200"]),
        ("*/30 1-3 29 * *", ["03-29 01:00+0100", "03-29 01:30+0100", "03-29 03:00+0200", "03-29 03:30+0200"]),
        ("20 * 29 3 *", ["03-29 00:20+0100", "03-29 01:20+0100", "03-29 03:00+0200", "03-29 03:20+0200"]),
    ],
)
def test_what_the_clock_jumps_over_is_due_once_at_the_jump(expression, expected):
    assert due(expression, "2026-03-28T00:00+01:00", len(expected), BERLIN) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["10-24 02:30+0200", "10-25 02:30+0200", "10-26 02:30+0100"]),
        ("0 3 * * *", ["10-24 03:00+0200", "10-25 03:00+0100", "10-26 03:00+0100"]),
        ("0 2-3 25 * *", ["10-25 02:00+0200", "10-25 03:00+0100"]),
        ("*/30 2 25 * *", ["10-25 02:00+0200", "10-25 02:30+0200", "11-25 02:00+0100"]),
        ("*/30 * 25 10 *", [f"10-25 {time}" for time in (
            "00:00+0200", "00:30+0200", "01:00+0200", "01:30+0200", "02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100", "03:00+0100"
        )]),
    ],
)  # fmt: skip
def test_a_time_that_comes_twice_is_due_in_both_passes_for_every_hour_and_else_in_the_first(expression, expected):
    assert due(expression, "2026-10-24T00:00+02:00", len(expected), BERLIN) == expected


@pytest.mark.parametrize(
    ("after", "expression", "expected"),
    [
        ("2026-10-25T02:10+01:00", "30 2 * * *", "10-26 02:30+0100"),  # from within the second pass
        ("2026-10-25T02:00+01:00", "0 2 * * *", "10-26 02:00+0100"),
        ("2026-10-25T02:59+01:00", "0 3 * * *", "10-25 03:00+0100"),
        ("2026-10-25T02:10+01:00", "30 * * * *", "10-25 02:30+0100"),
        ("2026-10-25T02:40+02:00", "30 * * * *", "10-25 02:30+0100"),
        ("2026-03-29T03:00+02:00", "30 2 * * *", "03-30 02:30+0200"),
        ("2026-03-29T01:59+01:00", "30 2 * * *", "03-29 03:00+0200"),
    ],
)
def test_it_can_be_asked_from_any_moment_of_such_a_night(after, expression, expected):
    assert due(expression, after, zone=BERLIN) == [expected]


def test_clocks_that_are_set_by_half_an_hour_are_followed():
    assert due("45 1 * * *", "2026-04-04T12:00+11:00", 2, LORD_HOWE) == ["04-05 01:45+1100", "04-06 01:45+1030"]
    assert due("15 2 * * *", "2026-10-03T12:00+10:30", 2, LORD_HOWE) == ["10-04 02:30+1100", "10-05 02:15+1100"]
    assert due("45 * * * *", "2026-04-05T01:00+11:00", 3, LORD_HOWE) == [
        "04-05 01:45+1100", "04-05 01:45+1030", "04-05 02:45+1030"
    ]  # fmt: skip


def test_a_day_that_a_zone_left_out_is_due_at_the_jump():
    assert due("0 12 30 12 *", "2011-12-01T00:00Z", 1, "Pacific/Apia") == ["12-31 00:00+1400"]


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("", "0 fields"), ("* * * *", "4 fields"), ("* * * * * *", "6 fields"), ("@daily", "1 fields"), (None, "0 fields"),
        ("60 * * * *", "'60' is no minute; that is 0 to 59"), ("* 24 * * *", "no hour"), ("* * 0 * *", "no day of month"),
        ("* * 32 * *", "no day of month"), ("* * * 13 *", "no month"), ("* * * 0 *", "no month"), ("* * * * 8", "no day of week"),
        ("* * * foo *", "1 to 12 or jan to dec"), ("* * * * monday", "0 to 7 or sun to sat"), ("jan * * * *", "no minute"),
        ("5-1 * * * *", "rising range"), ("* 22-4 * * *", "rising range"), ("*/0 * * * *", "no minute"), ("*/99 * * * *", "so say that"), ("0 */24 * * *", "so say that"), ("1,,2 * * * *", "'' is no"),
        ("5/15 * * * *", 'from where to where: "5-59/15"'), ("1-2-3 * * * *", "no minute"), ("-1 * * * *", "no minute"), ("1- * * * *", "no minute"),
        ("* * ? * *", "no day of month"), ("* * L * *", "no day of month"), ("٣ * * * *", "no minute"), ("*5 * * * *", "no minute"),
        ("0 0 30 2 *", "no such day"), ("0 0 31 2,4,6,9,11 *", "no such day"), ("0 0 * * fri-mon", "no day of week"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(expression, named):
    with pytest.raises(OptionsError, match="cron") as caught:
        Cron(expression)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "zone",
    [
        "Mars/Olympus",
        "",
        "../etc/passwd",
        "/etc/passwd",
        "Europe",
        "+01:00",
        "localtime",
        "posixrules",
        "Factory",
        "right/UTC",
        None,
        7,
    ],
)
def test_an_unknown_zone_is_named(zone):
    with pytest.raises(OptionsError, match="zone"):
        Cron("* * * * *", zone)


def field(least: int, most: int):
    number = st.integers(least, most)
    span = st.tuples(number, number, st.integers(1, 9)).map(lambda it: f"{min(it[:2])}-{max(it[:2])}/{it[2]}")
    return st.lists(st.one_of(number.map(str), span), min_size=1, max_size=3).map(",".join) | st.just("*")


EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), field(1, 28), st.just("*"), field(0, 6)).map(" ".join)
SECONDS = st.integers(0, 2_000_000_000)


@given(expression=EXPRESSIONS, zone=st.sampled_from(ZONES), second=SECONDS)
def test_each_time_is_later_and_shows_what_was_asked_for_or_is_a_jump(expression, zone, second):
    cron, there = Cron(expression, zone), ZoneInfo(zone)
    times = [second * NS]
    for _ in range(5):
        times.append(cron.next(times[-1]))
    assert all(before < after for before, after in pairwise(times))
    for time in times[1:]:
        wall = int(datetime.fromtimestamp(time // NS, there).replace(tzinfo=UTC, fold=0).timestamp())
        jumped = cron._offset(time // NS) > cron._offset(time // NS - 1)
        assert jumped or cron._wall_after(wall - 1) == wall


@given(expression=EXPRESSIONS, second=SECONDS)
def test_no_time_is_left_out(expression, second):
    """Against a search minute by minute, in a zone whose clock is never set."""
    cron = Cron(expression, "Asia/Kathmandu")
    step = datetime.fromtimestamp(second // 60 * 60, ZoneInfo("Asia/Kathmandu"))
    fields = [cron._times, cron._days, cron._weekdays]
    for _ in range(600):
        step += timedelta(minutes=1)
        days = (step.day in fields[1], step.isoweekday() % 7 in fields[2])
        if step.hour * 60 + step.minute in fields[0] and (any(days) if cron._either else all(days)):
            assert cron.next(second * NS) == int(step.timestamp()) * NS
            return
    assert cron.next(second * NS) > int(step.timestamp()) * NS


@given(zone=st.sampled_from(ZONES), second=SECONDS)
def test_every_minute_is_every_minute_in_any_zone(zone, second):
    assert Cron("* * * * *", zone).next(second * NS) == (second // 60 + 1) * 60 * NS


@given(zone=st.sampled_from(ZONES), second=SECONDS, hour=st.integers(0, 23), minute=st.integers(0, 59))
def test_once_a_day_is_once_a_day_in_any_zone(zone, second, hour, minute):
    cron = Cron(f"{minute} {hour} * * *", zone)
    times = [cron.next(second * NS)]
    while len(times) < 20:
        times.append(cron.next(times[-1]))
    assert all(22 <= (after - before) / NS / 3600 <= 26 for before, after in pairwise(times))
