"""reason: why a host lets nobody start at the moment."""

from __future__ import annotations

import pytest

from comity.policy.controller import Ending
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.quotas import Quota
from comity.policy.reason import reason
from tests.policy.stage import host, run

S = 1_000_000_000
MS = 1_000_000


def refuse(limiter: HostLimiter, until: int, *, hinted: bool = True, block: bool = False) -> None:
    limiter.refuse_until(run(limiter, 0), 0, until, refused=True, hinted=hinted, block=block)


def announce(limiter: HostLimiter, left: int) -> None:
    quota = Quota(name="q", unit="requests", remaining=left, limit=100, reset=60 * S)
    limiter.announced(run(limiter, 0), [quota], 0)


def test_a_host_that_lets_anybody_start_has_no_reason_nor_has_one_that_only_keeps_its_rate():
    assert reason(host(), 0) == ("", 0)
    paced = host(rate="1/min", min_gap=10)
    run(paced, 0)
    assert reason(paced, 0) == ("", 0)


@pytest.mark.parametrize(
    ("how", "why"),
    [({}, "retry-after"), ({"hinted": False}, "refused"), ({"block": True}, "blocked")],
)
def test_a_pause_is_told_by_where_its_end_came_from_until_it_is_over(how, why):
    limiter = host()
    refuse(limiter, 7 * S, **how)
    assert reason(limiter, S) == (why, 6 * S)
    assert reason(limiter, 7 * S) == ("", 0)


def test_a_time_that_the_server_names_within_a_pause_is_the_reason_then():
    limiter = host(concurrency=2)
    first, second = run(limiter, 0), run(limiter, 0)
    limiter.refuse_until(first, 0, 2 * S, refused=True, hinted=False, block=False)
    assert reason(limiter, 0)[0] == "refused"
    limiter.refuse_until(second, 0, 5 * S, refused=True, hinted=True, block=False)
    assert reason(limiter, 0) == ("retry-after", 5 * S)


@pytest.mark.parametrize(("left", "why"), [(0, "quota used up"), (2, "quota spread")])
def test_what_is_announced_to_be_left_is_a_reason(left, why):
    limiter = host()
    announce(limiter, left)
    assert reason(limiter, 0)[0] == why


def test_the_learned_rate_and_the_breaker_are_reasons_of_adaptive_control():
    limiter = host(adaptive=True)
    for _ in range(6):
        ticket = run(limiter, reason(limiter, 0)[1])
        limiter.sample(ticket, 0, Ending.FAILED)
        limiter.release(ticket, 0)
    assert reason(limiter, 0) == ("breaker open", 500 * MS)
    refused = host(adaptive=True)
    refused.sample(run(refused, 0), 0, Ending.REFUSED)
    assert reason(refused, 0) == ("rate law", 250 * MS)


def test_the_one_that_lasts_longest_is_told():
    limiter = HostLimiter(Policy(), 0)
    announce(limiter, 0)
    refuse(limiter, 90 * S) if limiter.running < limiter.cap else limiter.pause.pause(0, 90 * S, hinted=True)
    assert reason(limiter, 0) == ("retry-after", 90 * S)
