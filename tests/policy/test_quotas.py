"""Quotas: every way in which servers announce them, through the one function that reads an answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from comity.policy.headers import read_hints
from comity.policy.quotas import LONGEST, Quota, reset
from comity.policy.units import NS

WALL = 1_796_000_000 * NS + 123_456_789
EPOCH = 1_796_000_000  # 2026-11-30T00:53:20Z


def quotas(*headers, status=200):
    return read_hints(headers, status=status, wall=WALL).quotas


def test_the_rate_limit_fields_of_the_draft_are_joined_by_name():
    """draft-ietf-httpapi-ratelimit-headers-11: q, w, qu of the policy; r, t of the state."""
    found = quotas(
        ("RateLimit-Policy", '"burst";q=100;w=60,"daily";q=5000;w=86400'),
        ("RateLimit", '"daily";r=4000;t=7200, "burst";r=50;t=30'),
    )
    assert found == (
        Quota("daily", "requests", 5_000, 4_000, 7_200 * NS, 86_400 * NS),
        Quota("burst", "requests", 100, 50, 30 * NS, 60 * NS),
    )


def test_the_drafts_other_units_are_named():
    found = quotas(
        ("RateLimit-Policy", '"size";q=1048576;qu="content-bytes"'), ("RateLimit", '"size";r=9;pk=:dGVzdA==:')
    )
    assert found == (Quota("size", "content-bytes", 1_048_576, 9),)


def test_a_policy_without_a_state_and_a_state_without_a_policy_are_quotas():
    assert quotas(("RateLimit-Policy", '"a";q=10;w=1')) == (Quota("a", limit=10, window=NS),)
    assert quotas(("RateLimit", '"b";r=3')) == (Quota("b", remaining=3),)
    both = quotas(("RateLimit", '"b";r=3'), ("RateLimit-Policy", '"a";q=10'))
    assert both == (Quota("b", remaining=3), Quota("a", limit=10))


def test_a_field_on_two_lines_is_one_list():
    assert len(quotas(("RateLimit", '"a";r=1'), ("ratelimit", '"b";r=2'))) == 2


@pytest.mark.parametrize(
    "value",
    [
        '"a"',
        '"a";t=5',
        '"a";r=-1',
        '"a";r=1.5',
        '"a";r=x',
        '"a";r=1,,',
        "garbage here",
        "",
        "limit=5",
        "remaining=x, limit=5",
    ],
)
def test_a_malformed_state_is_ignored(value):
    """The draft: r is required; malformed fields MUST be ignored."""
    assert quotas(("RateLimit", value)) == ()


@pytest.mark.parametrize("value", ['"a"', '"a";w=5', '"a";q=-1', '"a";q="5"', "q=5 w=1"])
def test_a_malformed_policy_is_ignored(value):
    assert quotas(("RateLimit-Policy", value)) == ()


def test_an_older_drafts_dictionary_takes_the_only_policy():
    found = quotas(("RateLimit", "limit=100, remaining=50, reset=30"), ("RateLimit-Policy", "100;w=60"))
    assert found == (Quota("ratelimit", "requests", 100, 50, 30 * NS, 60 * NS),)
    assert quotas(("RateLimit", "remaining=1")) == (Quota("ratelimit", remaining=1),)


def test_an_older_drafts_dictionary_does_not_guess_among_policies():
    found = quotas(("RateLimit", "limit=9, remaining=5, reset=3"), ("RateLimit-Policy", "9;w=1, 99;w=60"))
    assert found[0] == Quota("ratelimit", "requests", 9, 5, 3 * NS)
    assert [quota.limit for quota in found[1:]] == [9, 99]


def test_one_header_per_fact_makes_one_quota():
    found = quotas(
        ("RateLimit-Limit", "100, 100;w=60;comment=x"), ("RateLimit-Remaining", "40"), ("RateLimit-Reset", "9")
    )
    assert found == (Quota("ratelimit", "requests", 100, 40, 9 * NS, 60 * NS),)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("2", 2 * NS),
        ("0", 0),
        ("0.5", NS // 2),
        (str(EPOCH + 30), 30 * NS - 123_456_789),
        (f"{EPOCH + 30}.5", 30 * NS + NS // 2 - 123_456_789),
        (str((EPOCH + 30) * 1_000), 30 * NS - 123_456_789),
        (str(EPOCH - 2), 0),
        ("2026-11-30T00:00:00Z", 0),
        ("Mon, 30 Nov 2026 00:53:50 GMT", 30 * NS - 123_456_789),
        ("6m0s", 360 * NS),
        ("20ms", 20_000_000),
        ("31622400", 366 * 86_400 * NS),
    ],
)
def test_a_reset_is_a_delay_or_an_instant_by_its_size(value, wait):
    """RL-01 RL-03: up to 366 days a delay; from 10**9 an instant in s, from 10**12 in ms; a past one is 0."""
    assert quotas(("X-RateLimit-Reset", value)) == (Quota("x-ratelimit", reset=wait),)


@pytest.mark.parametrize(
    "value",
    ["1893456000000000000", "soon", "", "-5", "31622401", "999999999", "100000000000", "9999999999", "1e9", "400d"],
)
def test_a_reset_that_fits_no_plausible_instant_is_ignored(value):
    """RL-05: micro- or nanoseconds, text, signs and far futures."""
    assert quotas(("X-RateLimit-Reset", value)) == ()


@pytest.mark.parametrize(
    ("value", "present", "wait"),
    [
        ("1000000000", 10**9 - 1, 1), ("999999999", 10**9 - 2, None), ("99999999999", 10**11 - 2, 1), ("100000000000", 10**11 - 1, None),
        ("1000000000000", 10**9 - 1, 1), ("999999999999", 10**9 - 2, None), ("99999999999000", 10**11 - 2, 1), ("100000000000000", 10**11 - 1, None),
        ("1900000000", 1_900_000_000 - 366 * 86_400, 366 * 86_400), ("1900000000", 1_900_000_000 - 366 * 86_400 - 1, None), ("366d", 0, 366 * 86_400),
    ],
)  # fmt: skip
def test_the_thresholds_of_a_reset_are_as_documented(value, present, wait):
    """RL-03: 366 days, 10**9 and 10**11 seconds, 10**12 and 10**14 milliseconds."""
    assert reset(value, lambda: present * NS) == (None if wait is None else wait * NS)


def test_a_limit_per_interval_is_a_window():
    found = quotas(("X-Rate-Limit-Limit", "50"), ("X-Rate-Limit-Interval", "1s"))
    assert found == (Quota("x-rate-limit", limit=50, window=NS),)
    assert quotas(("X-Rate-Limit-Limit", "50"), ("X-Rate-Limit-Interval", "5"))[0].window == 5 * NS
    assert quotas(("X-Rate-Limit-Limit", "50"), ("X-Rate-Limit-Interval", "soon"))[0].window is None
    assert quotas(("X-Rate-Limit-Interval", "1s")) == ()


def test_requests_and_tokens_are_quotas_of_their_own():
    found = quotas(
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    )
    assert found == (
        Quota("x-ratelimit-requests", "requests", 60, 59, NS),
        Quota("x-ratelimit-tokens", "tokens", None, 0, 360 * NS),
    )


def test_anthropic_resets_are_instants_of_rfc_3339():
    found = quotas(
        ("Date", "Mon, 30 Nov 2026 13:33:20 GMT"),
        ("anthropic-ratelimit-input-tokens-limit", "50000"),
        ("anthropic-ratelimit-input-tokens-remaining", "49000"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T13:33:50Z"),
    )
    assert found == (Quota("anthropic-ratelimit-input-tokens", "input-tokens", 50_000, 49_000, 30 * NS),)


@pytest.mark.parametrize("value", ["-1", "many", "", "1e3", "9" * 16, "1_000"])
def test_a_malformed_count_is_absent(value):
    assert quotas(("X-RateLimit-Remaining", value)) == ()


def test_a_fraction_of_a_count_is_not_there_yet():
    assert quotas(("X-RateLimit-Remaining", "49.9"))[0].remaining == 49


def test_a_cached_answer_tells_nothing_about_quotas():
    """The draft: do not read them on an answer that a cache gave."""
    assert quotas(("RateLimit", '"a";r=1'), ("X-RateLimit-Remaining", "0"), ("Age", "30")) == ()
    assert len(quotas(("RateLimit", '"a";r=1'), ("Age", "0"))) == 1


@given(st.text(max_size=40) | st.from_regex(r"[0-9]{1,25}(\.[0-9]{1,9})?", fullmatch=True), st.integers(0, 10**20))
def test_no_reset_is_negative_or_absurd(text, wall):
    wait = reset(text, lambda: wall)
    assert wait is None or 0 <= wait <= LONGEST
