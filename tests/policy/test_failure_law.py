"""FailureLaw: cuts and the breaker. Pure: every test passes `now`, ns."""

from __future__ import annotations

from comity.policy.failure_law import FailureLaw
from comity.policy.units import seconds


def fail(law: FailureLaw, times: int, *, limit: float = 10.0, now: float = 0.0, timed_out: bool = False) -> list[bool]:
    return [law.failure(seconds(now), 50, limit, 1e9, timed_out=timed_out) for _ in range(times)]


def test_the_third_failure_in_a_row_cuts_once_per_latency():
    law = FailureLaw()
    assert fail(law, 4) == [False, False, True, False]
    assert fail(law, 1, now=1.0) == [True]


def test_a_success_breaks_the_row():
    law = FailureLaw()
    fail(law, 2)
    assert law.success(7) is False
    assert fail(law, 2) == [False, False]


def test_a_timeout_cuts_at_once():
    assert fail(FailureLaw(), 1, timed_out=True) == [True]


def test_the_breaker_opens_after_six_failures_in_a_row_or_twice_the_limit():
    small, large = FailureLaw(), FailureLaw()
    fail(small, 5, limit=1.0)
    fail(large, 19)
    assert not small.open
    assert not large.open
    fail(small, 1, limit=1.0)
    fail(large, 1)
    assert small.open
    assert large.open


def test_probes_go_out_at_growing_distance_up_to_five_seconds():
    law, waits = FailureLaw(), []
    fail(law, 20, now=100.0)
    now = law.until
    assert now == seconds(100.5)
    for _ in range(8):
        law.begin(now)
        assert fail(law, 1, now=now / 1e9) == [False]
        waits.append((law.until - now) / 1e9)
        now = law.until
    assert waits == [0.75, 1.125, 1.6875, 2.53125, 3.796875, 5.0, 5.0, 5.0]


def test_only_the_success_of_a_probe_closes_the_breaker():
    law = FailureLaw()
    fail(law, 20)
    assert law.success(49) is False
    assert law.open
    assert law.success(50) is True
    assert (law.open, law.until) == (False, 0)
