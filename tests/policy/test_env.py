"""Policies from the environment: one grammar, five variables, and no mistake keeps a program from starting."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.retry import Retry

SUFFIXES = ("RATE", "CONCURRENCY", "MIN_GAP", "RETRIES", "MAX_RETRY_WAIT")


def read(default=None, *, strict=False, prefix="API", **variables):
    return Policy.from_env(
        prefix, default, environ={f"API_{name}": text for name, text in variables.items()}, strict=strict
    )


@pytest.mark.parametrize(("text", "rate"), [("60/min", Rate(60, 60)), ("10/s", Rate(10, 1)), ("50/5s", Rate(50, 5))])
def test_a_rate_is_starts_per_window(text, rate):
    """PF-029: 60/min, 10/s, 50/5s."""
    assert read(RATE=text) == (Policy(rate=rate), [])


def test_concurrency_is_requests_in_flight():
    """PF-030."""
    assert read(CONCURRENCY="4") == (Policy(concurrency=4), [])
    assert read(CONCURRENCY="1") == (Policy(concurrency=1), [])


def test_a_gap_is_a_duration():
    """PF-031: 250ms."""
    assert read(MIN_GAP="250ms") == (Policy(min_gap=0.25), [])


@pytest.mark.parametrize(("text", "attempts"), [("0", 1), ("3", 4), ("off", 1)])
def test_retries_do_not_count_the_first_try(text, attempts):
    """PF-032."""
    policy, warnings = read(RETRIES=text)
    assert (policy.retry.attempts, warnings) == (attempts, [])


def test_no_retries_means_one_send_whatever_the_answer():
    assert read(RETRIES="0")[0].retry.refusals == 0
    assert read(RETRIES="2")[0].retry.refusals == 10


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60.0), ("5min", 300.0), ("0", 0.0), ("off", None)])
def test_the_longest_retry_wait_is_a_duration(text, seconds):
    """PF-033: 60s, 5min."""
    policy, warnings = read(MAX_RETRY_WAIT=text)
    assert (policy.retry.max_retry_after, warnings) == (seconds, [])


@pytest.mark.parametrize("text", ["off", "0", "none", "no", "false", "OFF"])
def test_off_and_zero_remove_a_limit(text):
    """PF-034 EN-05: from rate, concurrency and gap."""
    default = Policy(rate="1/s", concurrency=1, min_gap=1)
    policy, warnings = read(default, RATE=text, CONCURRENCY=text, MIN_GAP=text)
    assert (policy.rate, policy.concurrency, policy.min_gap, warnings) == ((), None, None, [])


@pytest.mark.parametrize("text", ["ten/s", "60/fortnight"])
def test_a_value_that_does_not_parse_is_ignored_and_told(text):
    """PF-035 EN-03: the default stays, the warning names the variable and the value."""
    policy, (warning,) = read(Policy(rate="7/s"), RATE=text, CONCURRENCY="3")
    assert (policy.rate, policy.concurrency) == ((Rate(7, 1),), 3)
    assert "API_RATE" in warning
    assert text in warning
    assert "ignored" in warning


@pytest.mark.parametrize(
    ("name", "text"),
    [("RETRIES", "1_000"), ("RETRIES", "٣"), ("RETRIES", "three"), ("RETRIES", "-1"), ("CONCURRENCY", "1.5"), ("CONCURRENCY", "true"),
     ("MIN_GAP", "5 parsecs"), ("MAX_RETRY_WAIT", "-1s"), ("MAX_RETRY_WAIT", "forever")],
)  # fmt: skip
def test_each_variable_has_one_grammar(name, text):
    """PF-035 EN-05: "1_000" and digits of other scripts are told, not taken."""
    policy, warnings = read(**{name: text})
    assert policy == Policy()
    assert len(warnings) == 1
    assert f"API_{name}" in warnings[0]


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_an_empty_variable_counts_as_unset(text):
    """EN-01: no warning, no exception, the defaults."""
    default = Policy(rate="5/s", concurrency=2, min_gap=1, retry=5)
    assert read(default, **dict.fromkeys(SUFFIXES, text)) == (default, [])


def test_the_environment_wins_over_the_default_and_leaves_the_rest():
    """PF-002."""
    default = Policy(rate="5/s", concurrency=2, retry=Retry(attempts=5, refusals=1, max_retry_after=9), deadline=8)
    policy, warnings = read(default, CONCURRENCY="6", RETRIES="1", MAX_RETRY_WAIT="2min")
    assert policy == default.replace(concurrency=6, retry=Retry(attempts=2, refusals=1, max_retry_after=120))
    assert warnings == []


def test_every_mistake_is_told():
    """EN-03: both variables are named."""
    _, warnings = read(RETRIES="three", RATE="60/fortnight")
    assert [any(name in warning for warning in warnings) for name in ("API_RETRIES", "API_RATE")] == [True, True]


def test_strict_raises_one_error_that_lists_every_mistake():
    """EN-03: strict mode."""
    with pytest.raises(OptionsError, match=r"(?s)API_RATE.*API_RETRIES.*60/fortnight.*three"):
        read(strict=True, RETRIES="three", RATE="60/fortnight")
    assert read(strict=True, RETRIES="2")[1] == []


def test_programs_differ_in_the_prefix_only():
    """PF-036: the same variables under every prefix."""
    values = {"RATE": "50/5s", "CONCURRENCY": "3", "MIN_GAP": "5ms", "RETRIES": "4", "MAX_RETRY_WAIT": "9s"}
    policies = [
        Policy.from_env(prefix, environ={f"{prefix}_{name}": text for name, text in values.items()})
        for prefix in ("SUBSTACK", "DEEZER")
    ]
    assert policies[0] == policies[1] != (Policy(), [])


def test_a_prefix_may_end_in_its_underscore():
    assert read(prefix="API_", CONCURRENCY="3")[0].concurrency == 3


@pytest.mark.parametrize("prefix", ["", "_", "1X", "A-B", "A B"])
def test_what_cannot_start_a_variable_is_refused(prefix):
    with pytest.raises(OptionsError, match="prefix"):
        read(prefix=prefix)


def test_the_process_environment_is_read_by_default(monkeypatch):
    monkeypatch.setenv("COMITY_TEST_CONCURRENCY", "17")
    assert Policy.from_env("COMITY_TEST")[0].concurrency == 17


@pytest.mark.parametrize(
    ("prefix", "default", "option"), [(1, None, "prefix"), (None, None, "prefix"), ("A", 5, "default")]
)
def test_a_prefix_is_text_and_a_default_is_a_policy(prefix, default, option):
    with pytest.raises(OptionsError) as caught:
        Policy.from_env(prefix, default, environ={})
    assert caught.value.option == option
