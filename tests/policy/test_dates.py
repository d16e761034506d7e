"""Dates: instants as servers write them, always UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from comity.policy.dates import date_time, http_date, rfc3339
from comity.policy.units import NS

SIXTH = 784_111_777 * NS  # 1994-11-06T08:49:37Z, the example of RFC 9110
IN_2026 = 1_796_000_000 * NS


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Sun, 06 Nov 1994 08:49:37 UTC",
    ],
)
def test_the_three_http_forms_are_read(text):
    """RA-01 PF-013: RFC 9110, 5.6.7."""
    assert http_date(text, IN_2026) == SIXTH


@pytest.mark.parametrize(
    ("two_digits", "present", "year"),
    [
        (94, 2026, 1994),
        (76, 2026, 2076),
        (77, 2026, 1977),
        (26, 2026, 2026),
        (5, 2099, 2105),
        (49, 2000, 2049),
        (51, 2000, 1951),
    ],
)
def test_a_year_of_two_digits_lies_at_most_fifty_years_ahead(two_digits, present, year):
    """RFC 9110, 5.6.7: one that appears to lie further ahead is the most recent past year with these digits."""
    wall = int(datetime(present, 6, 1, tzinfo=UTC).timestamp()) * NS
    expected = int(datetime(year, 3, 1, tzinfo=UTC).timestamp()) * NS
    assert http_date(f"Monday, 01-Mar-{two_digits:02} 00:00:00 GMT", wall) == expected


def test_a_leap_second_is_an_instant():
    assert http_date("Sat, 31 Dec 2016 23:59:60 GMT", 0) == 1_483_228_800 * NS


@pytest.mark.parametrize(
    "text",
    ["", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 2026 08:49:37 GMT",
     "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:00 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
     "Sun, 06 Nov 0000 08:49:37 GMT", "Sunday, 31-Feb-94 08:49:37 GMT", "Sunday, 06-Foo-94 08:49:37 GMT", "Sun, 0٦ Nov 1994 08:49:37 GMT",
     "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT"],
)  # fmt: skip
def test_what_is_no_http_date_is_none(text):
    assert http_date(text, IN_2026) is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1994-11-06T08:49:37Z", SIXTH),
        ("1994-11-06 08:49:37z", SIXTH),
        ("1994-11-06T09:49:37+01:00", SIXTH),
        ("1994-11-06T03:19:37-05:30", SIXTH),
        ("1994-11-06T08:49:37.25Z", SIXTH + NS // 4),
        ("1994-11-06T08:49:37.123456789123Z", SIXTH + 123_456_789),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_rfc_3339_is_read_with_its_offset_and_fraction(text, ns):
    assert rfc3339(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1994-11-06",
        "1994-11-06T08:49:37",
        "1994-13-06T08:49:37Z",
        "1994-11-06T08:49:37+0100",
        "1994-02-30T00:00:00Z",
    ],
)
def test_what_is_no_rfc_3339_time_is_none(text):
    assert rfc3339(text) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_second_is_read_back(moment):
    moment = moment.replace(microsecond=0)
    ns = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) * NS
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    day, month = days[moment.weekday()], months[moment.month - 1]
    assert http_date(f"{day}, {moment.day:02} {month} {moment.year:04} {moment:%H:%M:%S} GMT", 0) == ns
    assert http_date(f"{day} {month} {moment.day:2} {moment:%H:%M:%S} {moment.year:04}", 0) == ns
    assert rfc3339(moment.isoformat()) == ns


@given(st.text(max_size=60), st.integers(-(10**20), 10**20))
def test_no_text_and_no_clock_makes_a_reader_fail(text, wall):
    assert isinstance(http_date(text, wall), int | None)
    assert isinstance(http_date(f"Sunday, 06-Nov-{text} 08:49:37 GMT", wall), int | None)
    assert isinstance(http_date("Sunday, 06-Nov-94 08:49:37 GMT", wall), int | None)
    assert isinstance(rfc3339(text), int | None)


@pytest.mark.parametrize("ns", [0, 999_999, 1_700_000_000_123_999_999, 253_402_300_799_999_999_999])
def test_a_date_time_is_written_with_the_milliseconds_that_were_over(ns):
    """By whole numbers: a float has no room for the last of them."""
    text = date_time(ns)
    assert (rfc3339(text), len(text)) == (ns // 1_000_000 * 1_000_000, 24)
