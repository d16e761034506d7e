"""Stats: sums over hosts, and what one host counted."""

from __future__ import annotations

import json

import pytest

from comity.engine.stats import HostStats, Stats, Tally
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome


def test_sums_over_hosts():
    """CP-073: queued, running, concurrency."""
    hosts = {
        "a": HostStats(queued=1, running=2, concurrency=3),
        "b": HostStats(queued=10, running=20, concurrency=30),
    }
    stats = Stats.of(hosts)
    assert (stats.queued, stats.running, stats.concurrency, stats.hosts) == (11, 22, 33, hosts)


def test_they_are_plain_values_for_json():
    """CP-073"""
    stats = Stats.of({"a": HostStats(queued=1, running=2, gap=0.5)}, bound=7)
    row = json.loads(json.dumps(stats.as_dict()))
    assert (row["queued"], row["running"], row["concurrency"]) == (1, 2, 7)
    assert (row["hosts"]["a"]["gap"], row["hosts"]["a"]["concurrency"]) == (0.5, None)
    assert row["hosts"]["a"] == stats.hosts["a"].as_dict()


@pytest.mark.parametrize(
    ("caps", "unseen", "bound", "concurrency"),
    [
        ([3, 4], 10, None, 7),
        ([3, 4], 10, 5, 5),
        ([3, None], 10, None, None),
        ([3, None], 10, 500, 500),
        ([], 10, None, 10),
        ([], None, 500, 500),
        ([], None, None, None),
    ],
)
def test_concurrency_is_what_may_run_at_once(caps, unseen, bound, concurrency):
    """CP-072: None only when nothing limits it."""
    hosts = {str(n): HostStats(concurrency=cap) for n, cap in enumerate(caps)}
    assert Stats.of(hosts, unseen=unseen, bound=bound).concurrency == concurrency


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Outcome(status=200), "succeeded"),
        (Outcome(status=302), "succeeded"),
        (Outcome(status=429), "refused"),
        (Outcome(status=404), "failed"),
        (Outcome(status=500), "failed"),
        (Outcome(failure="lost", sent="maybe"), "failed"),
        (Outcome(failure="deadline", sent="yes"), "failed"),
    ],
)
def test_each_attempt_is_counted_once_by_how_it_ended(outcome, counted):
    tally = Tally()
    tally.count(2, outcome)
    ends = {name: getattr(tally, name) for name in ("succeeded", "refused", "failed", "cancelled")}
    assert {name for name, count in ends.items() if count} == {counted}
    assert (tally.started, tally.retried) == (1, 1)


def test_what_was_never_sent_did_not_start():
    tally = Tally()
    tally.count(1, Outcome(failure="connect", sent="no"))
    tally.cut_short(1, sent=False)
    assert (tally.started, tally.retried, tally.failed, tally.cancelled) == (0, 0, 1, 1)


def test_a_host_without_a_limit_of_its_own_has_none():
    assert Tally().stats(HostLimiter(Policy(concurrency=None), 0), 0).concurrency is None
