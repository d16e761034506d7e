"""Hints: what an answer asks for. Malformed means absent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from comity.policy.header_names import USUAL
from comity.policy.headers import NO_HINTS, read_hints
from comity.policy.quotas import LONGEST, Quota
from comity.policy.units import NS

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
WALL = int(NOW.timestamp()) * NS


def stamp(seconds, form="%a, %d %b %Y %H:%M:%S GMT"):
    return (NOW + timedelta(seconds=seconds)).strftime(form)


def wait(*headers, status=429, wall=WALL):
    return read_hints(headers, status=status, wall=wall).retry_after


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ("2", 2 * NS),
        ("0", 0),
        ("0.25", NS // 4),
        ("1.5", 3 * NS // 2),
        (" 30\t", 30 * NS),
        ("31622400", LONGEST),
        ("31622401", LONGEST),
        ("9" * 30, LONGEST),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
        ("20, 30", 30 * NS),
        ("0007", 7 * NS),
        ("0.0000000001", 1),
    ],
)
def test_retry_after_is_a_number_of_seconds(value, ns):
    """PF-012 RA-08: decimals are tolerated, and the wait is never shorter than asked, up to 366 days."""
    assert wait(("Retry-After", value)) == ns


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"])
def test_retry_after_is_a_date_in_any_of_three_forms(form):
    """PF-013 RA-01: RFC 9110, 10.2.3."""
    assert wait(("Retry-After", stamp(3, form))) == 3 * NS
    assert wait(("Retry-After", stamp(3, form)), wall=WALL + NS // 4) == 3 * NS - NS // 4


def test_of_a_field_that_stands_twice_the_longest_wait_counts():
    assert wait(("Retry-After", "20"), ("Retry-After", "30")) == 30 * NS
    assert wait(("Retry-After", stamp(40)), ("Retry-After", "30")) == 40 * NS
    assert wait(("Retry-After", "20"), ("retry-after", "soon")) is None


def test_a_past_date_is_a_wait_of_zero():
    """RA-03: never negative."""
    assert wait(("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT")) == 0


@pytest.mark.parametrize(
    "value",
    [
        "",
        "garbage",
        "-1",
        "-5",
        "+5",
        "Infinity",
        "nan",
        " ",
        "1e3",
        "1_000",
        "٣",
        "5, -10",
        "5; 10",
        "5s",
    ],
)
def test_what_is_no_plausible_wait_counts_as_absent(value):
    """RA-04 and the facts' table: the ordinary backoff follows."""
    assert read_hints([("Retry-After", value)], status=429, wall=WALL) == NO_HINTS


def test_a_date_is_compared_with_the_answers_own_date():
    """RA-12: both clocks may be wrong by minutes."""
    assert wait(("Date", stamp(-600)), ("Retry-After", stamp(-597))) == 3 * NS
    assert wait(("Date", "yesterday"), ("Retry-After", stamp(3))) == 3 * NS


def test_the_date_of_a_cached_answer_is_as_old_as_its_age():
    assert wait(("Date", stamp(-30)), ("Age", "30"), ("Retry-After", stamp(3))) == 3 * NS


def test_milliseconds_have_a_header_of_their_own():
    """RA-08: retry-after-ms is the finer statement."""
    assert wait(("retry-after-ms", "1500")) == 3 * NS // 2
    assert wait(("Retry-After", "2"), ("retry-after-ms", "1500")) == 3 * NS // 2
    assert wait(("Retry-After", "2"), ("retry-after-ms", "soon")) == 2 * NS


@pytest.mark.parametrize("status", [200, 202, 301, 429, 500, 503])
def test_the_hint_is_read_on_every_answer(status):
    """RA-11: a 202's hint is there for whoever polls."""
    assert wait(("Retry-After", "1"), status=status) == NS


def test_a_429_that_names_only_a_reset_is_told_to_wait_for_it():
    """RL-01 RL-03 RL-04: small is a delay, large an instant, compared with the answer's own date."""
    assert wait(("X-RateLimit-Reset", "2")) == 2 * NS
    assert wait(("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", str(WALL // NS - 2))) == 0
    assert wait(("Date", stamp(-600)), ("X-RateLimit-Reset", str(WALL // NS - 598))) == 2 * NS
    assert wait(("RateLimit", '"a";r=0;t=30')) == 30 * NS


def test_a_429_waits_for_the_quota_that_is_used_up():
    requests = ("x-ratelimit-remaining-requests", "59"), ("x-ratelimit-reset-requests", "1s")
    tokens = ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")
    assert wait(*requests, *tokens) == 360 * NS
    assert wait(("RateLimit", '"a";r=0;t=3,"b";r=0;t=9,"c";r=1;t=99')) == 9 * NS


def test_a_429_with_quota_left_had_another_reason():
    """An hour's reset tells nothing about a refusal while 4000 requests are left: the backoff follows."""
    assert wait(("X-RateLimit-Remaining", "4000"), ("X-RateLimit-Reset", "3000")) is None


def test_retry_after_wins_over_a_reset():
    """The draft: Retry-After MUST win."""
    assert wait(("RateLimit", '"a";r=0;t=30'), ("Retry-After", "5")) == 5 * NS


def test_a_reset_on_another_status_is_no_wait():
    assert wait(("RateLimit", '"a";r=0;t=30'), status=503) is None


def test_an_implausible_reset_leaves_the_backoff():
    """RL-05: nanoseconds, then text."""
    for value in ("1893456000000000000", "soon"):
        assert read_hints([("X-RateLimit-Reset", value)], status=429, wall=WALL) == NO_HINTS


def test_an_ordinary_answer_has_no_hints():
    ordinary = [("Date", stamp(0)), ("Age", "3"), ("Content-Type", "text/plain"), ("ETag", '"x"'), ("Server", "s")]
    assert read_hints(ordinary, status=200, wall=WALL) is NO_HINTS
    assert read_hints([], status=200, wall=WALL) is NO_HINTS
    assert read_hints((pair for pair in ordinary), status=200, wall=WALL) is NO_HINTS


def test_names_are_read_in_any_case_and_quotas_come_along():
    found = read_hints([("RETRY-AFTER", "1"), ("x-ratelimit-remaining", "3")], status=429, wall=WALL)
    assert found == (NS, (Quota("x-ratelimit", remaining=3),))


def test_a_field_of_absurd_length_is_not_read():
    assert read_hints([("RateLimit", ",".join(['"a";r=1'] * 1_000))], status=429, wall=WALL) == NO_HINTS


values = st.one_of(
    st.text(max_size=50),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,9})?", fullmatch=True),
    st.from_regex(r'"[a-z]{1,3}";[rq]=[0-9]{1,20};[tw]=[0-9]{1,20}', fullmatch=True),
    st.datetimes().map(lambda moment: moment.strftime("%a, %d %b %Y %H:%M:%S GMT")),
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
)


@given(
    st.lists(st.tuples(st.sampled_from(sorted(USUAL.known)) | st.text(max_size=9), values), max_size=12),
    st.sampled_from([200, 202, 429, 503]),
    st.integers(0, 10**19),
)
def test_no_headers_make_it_fail_or_give_a_negative_or_absurd_wait(headers, status, wall):
    found = read_hints(headers, status=status, wall=wall)
    waits = [found.retry_after, *(each for quota in found.quotas for each in (quota.reset, quota.window))]
    assert all(each is None or 0 <= each <= LONGEST for each in waits)
    counts = [each for quota in found.quotas for each in (quota.limit, quota.remaining)]
    assert all(each is None or each >= 0 for each in counts)
    assert found == read_hints(headers, status=status, wall=wall)
