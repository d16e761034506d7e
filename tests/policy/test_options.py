"""Policy: every rule for one host as one value."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

from comity.errors import OptionsError
from comity.policy.adaptive import Adaptive
from comity.policy.header_names import HeaderNames
from comity.policy.options import OPTIONS, Policy, policy_of
from comity.policy.rate import Rate
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from comity.policy.units import NS


def test_the_defaults_are_safe_for_both_sides():
    """CP-002: everything is optional. Ten at a time, no rate, three attempts, a limit on every phase."""
    policy = Policy()
    assert (policy.rate, policy.concurrency, policy.min_gap, policy.max_queue) == ((), 10, None, 100_000)
    assert (policy.retry, policy.timeout, policy.deadline, policy.ageing) == (Retry(), Timeout(), None, 60.0)
    assert policy.learn == "rate"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ()), ("off", ()), ("50/5s", (Rate(50, 5),)), (Rate(50, 5), (Rate(50, 5),)), ([], ()),
        (["50/5s", Rate(9, 1, kind="fixed")], (Rate(50, 5), Rate(9, 1, kind="fixed"))), (("1/s", "90 tokens/min"), (Rate(1, 1), Rate(90, 60, unit="tokens"))),
    ],
)  # fmt: skip
def test_rates_are_given_in_many_ways_and_kept_in_one(given, expected):
    assert Policy(rate=given).rate == expected


def test_durations_are_seconds_outside_and_nanoseconds_inside():
    """CP-006 PF-011: the least gap between starts."""
    policy = Policy(min_gap="250ms", queue_timeout=2, ageing=timedelta(minutes=1), deadline="5min")
    assert (policy.min_gap, policy.queue_timeout, policy.ageing, policy.deadline) == (0.25, 2.0, 60.0, 300.0)
    assert (policy.min_gap_ns, policy.queue_timeout_ns, policy.ageing_ns, policy.deadline_ns) == (
        NS // 4, 2 * NS, 60 * NS, 300 * NS,
    )  # fmt: skip


def test_none_is_no_limit():
    policy = Policy(concurrency=None, min_gap=0, queue_timeout=None, ageing=None, timeout=None)
    assert (policy.concurrency, policy.min_gap, policy.min_gap_ns, policy.ageing_ns) == (None, None, 0, None)
    assert policy.timeout.response is None


def test_the_least_of_every_option_is_allowed():
    policy = Policy(concurrency=1, max_queue=1, ageing=0.001, deadline="1ms", queue_timeout=0)
    assert (policy.concurrency, policy.max_queue, policy.ageing_ns, policy.deadline_ns) == (1, 1, 1_000_000, 1_000_000)
    assert policy.queue_timeout_ns == 0


def test_retries_and_a_timeout_may_be_plain_numbers():
    """PF-024 PF-032."""
    policy = Policy(retry=2, timeout=5)
    assert (policy.retry.attempts, policy.timeout.attempt) == (3, 5.0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rate": "ten/s"}, "rate"), ({"rate": 5}, "rate"), ({"rate": [5]}, "rate"), ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 2.5}, "concurrency"), ({"concurrency": True}, "concurrency"), ({"min_gap": -1}, "min_gap"), ({"max_queue": 0}, "max_queue"),
        ({"max_queue": None}, "max_queue"), ({"queue_timeout": "soon"}, "queue_timeout"), ({"ageing": 0}, "ageing"), ({"learn": True}, "learn"),
        ({"retry": 1.5}, "retry"), ({"retry": -1}, "retry"), ({"timeout": 0}, "timeout"), ({"deadline": 0}, "deadline"),
        ({"header_names": {"reset": "x"}}, "header_names"), ({"concurency": 4}, "did you mean concurrency"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(options, named):
    """CP-078: wrong options are told at once, with the option's name."""
    with pytest.raises(OptionsError, match=named):
        Policy(**options)


def test_a_changed_copy_is_checked_too():
    policy = Policy(rate="10/s", retry=1, header_names=HeaderNames(reset="X-Reset"))
    changed = policy.replace(concurrency=2)
    assert (changed.concurrency, changed.rate, changed.retry) == (2, policy.rate, policy.retry)
    assert changed.header_names == policy.header_names
    assert policy.replace() == policy
    with pytest.raises(OptionsError, match="concurrency"):
        policy.replace(concurrency=0)
    with pytest.raises(OptionsError, match="did you mean rate"):
        policy.replace(rat="1/s")


def test_a_mapping_becomes_a_policy():
    assert policy_of({"rate": "50/5s"}) == Policy(rate="50/5s")
    with pytest.raises(OptionsError, match="did you mean deadline"):
        policy_of({"dedline": 3})


def test_a_policy_is_a_value():
    policy = Policy(rate="10/s", min_gap="5ms")
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert pickle.loads(pickle.dumps(policy)).min_gap_ns == 5_000_000
    assert {policy: 1}[Policy(rate="10/s", min_gap=0.005)] == 1
    with pytest.raises(FrozenInstanceError):
        policy.concurrency = 5


def test_every_option_is_in_the_docstring():
    for name in OPTIONS:
        assert f"\n        {name}: " in Policy.__doc__


def test_what_refusals_teach_depends_on_what_is_known():
    """PF-015"""
    learned = {
        ("rate", False): (False, True), ("rate", True): (False, False),
        ("gap", False): (True, False), ("gap", True): (True, False),
        (None, False): (False, False),
    }  # fmt: skip
    for (learn, known), expected in learned.items():
        policy = Policy(learn=learn, rate=["9 tokens/s", *(["5/s"] if known else [])])
        assert (policy.learns_gap, policy.learns_rate) == expected
        by_latency = policy.replace(adaptive="ema")
        assert (by_latency.learns_gap, by_latency.learns_rate) == expected


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"adaptive": Adaptive(min_concurrency=5), "concurrency": 3}, ["adaptive.min_concurrency=5", "concurrency=3"]),
        ({"adaptive": Adaptive(initial_concurrency=5), "concurrency": 3}, ["initial_concurrency=5", "concurrency=3"]),
        ({"adaptive": "ema", "concurrency": None}, ["concurrency=None", 'adaptive.algorithm="ema"']),
        ({"adaptive": "auto", "learn": "gap"}, ["learn='gap'", 'adaptive.algorithm="auto"']),
        ({"adaptive": True, "breaker": False}, ["breaker=False", 'adaptive.algorithm="auto"']),
    ],
)
def test_options_that_cannot_hold_together_are_refused_and_both_are_named(options, named):
    with pytest.raises(OptionsError) as refused:
        Policy(**options)
    assert all(part in str(refused.value) for part in named)


def test_ema_leaves_the_gap_and_the_breaker_to_their_own_options():
    policy = Policy(adaptive="ema", learn="gap", breaker=False)
    assert (policy.learns_gap, policy.breaker) == (True, None)
