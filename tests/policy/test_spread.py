"""Spread: announced quotas are used up and not over."""

from __future__ import annotations

import heapq

import pytest

from comity.policy.pause import NO_CAP
from comity.policy.quotas import Quota
from comity.policy.spread import ALWAYS, SELDOM, SHORT, Spread
from comity.policy.units import NS
from comity.testing.upstream.limits import FixedWindow, SlidingWindow

MS = NS // 1000


def grant(spread: Spread, now: int, waiting: int) -> int:
    spread.granted += 1
    if spread.active:
        spread.grant(now, waiting)
    return spread.granted


def quota(left: int | None, reset: float | None, limit: int | None = None, unit: str = "requests") -> Quota:
    return Quota("q", unit, limit, left, None if reset is None else int(reset * NS))


def test_with_nothing_left_nobody_starts_before_the_reset_and_then_one_at_a_time():
    spread = Spread()
    rank = grant(spread, 0, 5)
    spread.hear([quota(0, 2)], rank, 0, 5)
    assert (spread.until, spread.cap) == (2 * NS, 1)
    rank = grant(spread, 2 * NS, 4)
    assert (spread.until, spread.cap) == (0, 1)
    spread.hear([quota(9, 2)], rank, 2 * NS, 4)
    assert (spread.until, spread.cap) == (0, NO_CAP)


def test_what_was_let_through_since_counts_against_what_is_left():
    spread = Spread()
    first = grant(spread, 0, 0)
    for _ in range(3):
        grant(spread, 0, 0)
    spread.hear([quota(3, 5)], first, 0, 0)
    assert spread.until == 5 * NS


def test_an_older_requests_answer_is_older_news():
    spread = Spread()
    first, second = grant(spread, 0, 0), grant(spread, 0, 0)
    spread.hear([quota(0, 5)], second, 0, 0)
    spread.hear([quota(8, 5)], first, 0, 0)
    assert spread.until == 5 * NS


@pytest.mark.parametrize(("waiting", "limit", "until"), [(4, None, 0), (5, None, NS), (0, 40, 0), (0, 41, NS)])
def test_what_is_left_is_spread_when_more_wait_for_it_or_little_is_left(waiting, limit, until):
    spread = Spread()
    spread.hear([quota(4, 5, limit)], grant(spread, 0, 0), 0, waiting)
    assert spread.until == until


@pytest.mark.parametrize(
    "told", [quota(None, 5), quota(5, None), quota(9, 5, unit="tokens")], ids=["no count", "no reset", "tokens left"]
)
def test_what_says_nothing_about_the_next_request_changes_nothing(told):
    spread = Spread()
    spread.hear([told], grant(spread, 0, 9), 0, 9)
    assert (spread.until, spread.idle) == (0, True)


def test_another_budget_that_is_used_up_holds_everybody_too():
    spread = Spread()
    spread.hear([quota(0, 3, unit="tokens")], grant(spread, 0, 9), 0, 9)
    assert spread.until == 3 * NS


def test_what_was_told_of_a_window_that_is_over_is_forgotten():
    spread = Spread()
    spread.hear([quota(9, 1)], grant(spread, 0, 0), 0, 0)
    assert not spread.idle
    grant(spread, NS, 0)
    assert spread.idle


@pytest.mark.parametrize("window", [FixedWindow(NS, 0), SlidingWindow(NS)], ids=["fixed", "sliding"])
@pytest.mark.parametrize("latency", [5 * MS, 80 * MS, 400 * MS])
@pytest.mark.parametrize("coarse", [False, True], ids=["exact", "whole seconds"])
def test_a_server_that_announces_refuses_nobody_and_is_used_well(window, latency, coarse):
    """Ten at a time, 200 wanted, 20 a second, judged when they arrive: half the latency after their start."""
    window.__init__(NS, *([0] if isinstance(window, FixedWindow) else []))
    spread, now, done, refused, running, wanted = Spread(), 0, 0, 0, 0, 200
    events: list[tuple[int, int, str, tuple[int, Quota | None]]] = []
    while done < 200:
        while running < min(10, spread.cap) and wanted and spread.until <= now:
            wanted -= 1
            running += 1
            rank = grant(spread, now, wanted)
            heapq.heappush(events, (now + latency // 2, rank, "arrives", (rank, None)))
        due = [events[0][0]] if events else []
        due += [spread.until] if wanted and spread.until > now and running < min(10, spread.cap) else []
        now = min(due)
        while events and events[0][0] <= now:
            _, rank, what, (_, told) = heapq.heappop(events)
            if what == "arrives":
                verdict = window.admit(now, 20)
                refused += not verdict.accepted
                reset = -(-verdict.reset // NS) * NS if coarse else verdict.reset
                told = Quota("q", "requests", 20, verdict.remaining, reset, NS)
                heapq.heappush(events, (now + latency // 2, rank, "answered", (rank, told)))
            else:
                running -= 1
                done += 1
                spread.hear([told] if told else [], rank, now, wanted)
    assert refused == 0
    least = 10 if latency < 400 * MS else 15
    assert now / NS < least * (4 if coarse else 2)


def test_a_reset_that_comes_soon_is_left_to_a_rate_that_is_known():
    spread = Spread(SHORT)
    spread.hear([quota(0, 9.9)], grant(spread, 0, 9), 0, 9)
    assert spread.until == 0
    spread.hear([quota(0, 10)], grant(spread, 0, 9), 0, 9)
    assert spread.until == SHORT


def test_few_answers_of_a_host_that_announces_nothing_are_searched():
    spread = Spread()
    assert [spread.listens() for _ in range(2 * SELDOM)].count(True) == ALWAYS + 2
    spread.hear([quota(None, 5)], grant(spread, 0, 0), 0, 0)
    assert all(spread.listens() for _ in range(ALWAYS))
