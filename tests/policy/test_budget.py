"""RetryBudget: retries are bounded by successes."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.budget import Bucket, RetryBudget
from comity.policy.options import Policy
from comity.policy.retry import GiveUp, RetryAt
from comity.policy.units import NS

AGAIN = RetryAt(3 * NS, "503", pause=2 * NS)


def charge(bucket: Bucket, now: int = 0, draw: float = 0.5, deadline: int | None = None) -> RetryAt | GiveUp:
    return bucket.charge(AGAIN, now, draw, deadline=deadline)


def test_retries_are_paid_from_what_is_there_at_the_start_and_then_given_up():
    bucket = Bucket(RetryBudget(start=2), 0)
    assert [charge(bucket) for _ in range(3)] == [AGAIN, AGAIN, GiveUp("budget", pause=2 * NS)]


def test_successes_and_time_pay_for_more_up_to_a_bound():
    bucket = Bucket(RetryBudget(start=0, per_success=0.5, per_second=0.25, most=2), 0)
    assert charge(bucket) != AGAIN
    bucket.succeeded()
    bucket.succeeded()
    assert charge(bucket) == AGAIN
    assert charge(bucket, 3 * NS) != AGAIN
    assert charge(bucket, 4 * NS) == AGAIN
    assert bucket.left(4 * NS) == 0
    assert bucket.left(3 * NS) == 0, "time never goes back"
    for _ in range(100):
        bucket.succeeded()
    assert bucket.left(1000 * NS) == 2


@pytest.mark.parametrize(("draw", "at"), [(0.0, 5 * NS), (0.5, 7_500_000_000)])
def test_a_retry_that_is_put_off_waits_five_to_ten_seconds(draw, at):
    bucket = Bucket(RetryBudget(start=0, empty="defer"), 0)
    assert charge(bucket, 0, draw) == RetryAt(at, "503, put off", pause=2 * NS)
    late = RetryAt(60 * NS, "503")
    assert bucket.charge(late, 0, draw, deadline=None).at == 60 * NS


def test_a_retry_that_would_be_put_off_beyond_the_deadline_is_given_up():
    bucket = Bucket(RetryBudget(start=0, empty="defer"), 0)
    assert charge(bucket, deadline=5 * NS) == GiveUp("budget", pause=2 * NS)
    assert isinstance(charge(bucket, deadline=20 * NS), RetryAt)


def test_a_bucket_may_be_forgotten_when_a_new_one_holds_no_less():
    bucket = Bucket(RetryBudget(start=1, per_second=1), 0)
    assert bucket.idle(0)
    charge(bucket)
    assert not bucket.idle(0)
    assert bucket.idle(NS)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"start": -1}, "start"), ({"per_success": True}, "per_success"), ({"per_second": float("nan")}, "per_second"),
     ({"most": 0}, "most"), ({"empty": "wait"}, "empty"), ({"starts": 1}, "start")],
)  # fmt: skip
def test_what_cannot_be_is_refused(options, named):
    with pytest.raises(OptionsError, match=named):
        RetryBudget(**options)


def test_a_policy_takes_a_budget_or_yes_or_no():
    assert Policy(retry_budget=True).retry_budget == RetryBudget()
    assert Policy(retry_budget=False).retry_budget is Policy().retry_budget is None
    with pytest.raises(OptionsError, match="retry_budget"):
        Policy(retry_budget=5)  # type: ignore[arg-type]
