"""HostLimiter and the rates, gaps and costs of a host, in virtual time (ns)."""

from __future__ import annotations

import random
import re

import pytest

from comity.errors import OptionsError
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.rate import Rate
from comity.policy.retry import Backoff, Retry
from comity.policy.ticket import State
from comity.policy.windows import NEVER
from tests.policy.stage import MS, OK, S, come, host, most_in, run, stage

REFUSED = Outcome(status=429)
FAILED = Outcome(status=500)


# ---- rates -------------------------------------------------------------------------------------------


def test_no_window_holds_more_than_the_limit_wherever_it_begins():
    """PF-009, WN-01: limit 5 per 2 s, 5 submitted at 1.9 s and 5 at 2.05 s."""
    traffic = stage(rate="5/2s")
    for number in range(10):
        traffic.submit(1_900 * MS if number < 5 else 2_050 * MS, takes=MS)
    traffic.run()
    assert traffic.times == [1_900 * MS] * 5 + [3_900 * MS] * 5


def test_a_rate_is_at_most_n_per_window_from_the_first_window_on():
    """LA-01: 4 per 2 s, 10 at once."""
    traffic = stage(rate="4/2s")
    for _ in range(10):
        traffic.submit(0)
    traffic.run()
    assert traffic.times == [0] * 4 + [2 * S] * 4 + [4 * S] * 2


def test_a_large_limit_and_a_cap_hold_together():
    """WN-03: 200 requests of 5 ms, 50 per 1 s, 10 at a time."""
    traffic = stage(rate="50/s", concurrency=10)
    for _ in range(200):
        traffic.submit(0, takes=5 * MS)
    traffic.run()
    assert most_in(traffic.times, S) == 50
    assert traffic.peak == 10
    assert 3 * S <= traffic.done[-1][0] <= 4.2 * S


def test_two_rates_are_taken_together_or_not_at_all():
    """LA-05: 5 per 1 s and 8 per 4 s, 16 at once."""
    traffic = stage(rate=["5/s", "8/4s"], concurrency=None)
    for _ in range(16):
        traffic.submit(0)
    traffic.run()
    assert traffic.times == [0] * 5 + [S] * 3 + [4 * S] * 5 + [5 * S] * 3


@pytest.mark.parametrize(
    "rate", [Rate(1999, 1), Rate(1999, 1, spread=True), Rate(1, 1 / 0.7), Rate(7, 10, spread=True)]
)
def test_odd_rates_lose_nothing_to_rounding_and_wake_once_for_each_start(rate):
    """LA-07: elapsed within 1 % of n / rate, at most 2 wake-ups per acquisition."""
    traffic, count = stage(rate=rate, concurrency=None), 10_000 if rate.max > 10 else 20
    for _ in range(count + 1):
        traffic.submit(0)
    traffic.run()
    assert traffic.times[-1] == pytest.approx(count * rate.per_ns / rate.max, rel=0.01)
    assert traffic.wakes <= count


def test_a_permit_that_is_there_is_granted_at_once_at_any_rate_and_the_next_wait_is_told_exactly():
    """LA-08: one per 10,000 s."""
    limiter = host(rate=Rate(1, 10_000))
    run(limiter, 5)
    assert limiter.earliest(MS) == 5 + 10_000 * S
    late = come(limiter, MS, deadline=200 * MS)
    assert limiter.admit(MS).wake_at == 200 * MS
    assert limiter.admit(200 * MS).refused == [late]
    assert late.state is State.EXPIRED


def test_a_fixed_window_starts_its_burst_at_once_and_the_rest_in_the_next():
    """CP-009, CP-010, CP-011: 2 per 2000 ms, 5 requests -> 4.0-5.5 s."""
    traffic = stage(rate=Rate(2, 2, kind="fixed"))
    for _ in range(5):
        traffic.submit(0, takes=MS)
    traffic.run()
    assert traffic.times == [0, 0, 2 * S, 2 * S, 4 * S]


def test_an_idle_time_longer_than_the_window_leaves_it_free():
    """CP-011: 1 per 2000 ms after 2.2 s of idling -> at once."""
    traffic = stage(rate=Rate(1, 2, kind="fixed"))
    traffic.submit(0)
    traffic.submit(2_200 * MS)
    traffic.run()
    assert traffic.times == [0, 2_200 * MS]


def test_auto_spaces_evenly():
    """CP-008: auto, 3 per 3000 ms, 3 calls -> 2.0-3.0 s."""
    traffic = stage(rate=Rate(3, 3, spread=True))
    for _ in range(3):
        traffic.submit(0)
    traffic.run()
    assert traffic.times == [0, S, 2 * S]


def test_auto_cannot_be_said_without_a_quota():
    """CP-007: even spacing is an option of a rate, so it cannot stand alone."""
    with pytest.raises(TypeError):
        Rate(spread=True)
    with pytest.raises(OptionsError, match="spread"):
        Policy(spread=True)


def test_a_least_gap_spaces_the_starts():
    """CP-006, PF-011: min gap 400 ms, 3 in parallel -> 800 ms and more."""
    traffic = stage(min_gap=0.4)
    for _ in range(3):
        traffic.submit(0, takes=5 * S)
    traffic.run()
    assert traffic.times == [0, 400 * MS, 800 * MS]


def test_a_least_gap_and_a_quota_hold_together():
    """CP-012: 50 ms and 4 per second."""
    traffic = stage(min_gap=0.05, rate=Rate(4, 1, kind="fixed"))
    for _ in range(6):
        traffic.submit(0)
    traffic.run()
    assert traffic.times == [0, 50 * MS, 100 * MS, 150 * MS, S, S + 50 * MS]


def test_a_least_gap_counts_from_the_first_byte_not_from_the_grant():
    traffic = stage(min_gap=0.1)
    for connect in (70, 0, 30):
        traffic.submit(0, connect=connect * MS)
    traffic.run()
    assert traffic.times == [70 * MS, 170 * MS, 300 * MS]


@pytest.mark.parametrize("hold_slot", [False, True])
def test_every_attempt_takes_its_own_permit(hold_slot):
    """CP-083, LA-03: 2 per 1 s, the first attempts fail, 6 requests: 12 starts, no window over 2."""
    traffic = stage(rate="2/s")
    retry = Retry(attempts=2, backoff=Backoff(base=0.01, jitter=None), hold_slot=hold_slot)
    for _ in range(6):
        traffic.submit(0, retry=retry, answer=lambda number, _at: FAILED if number == 1 else OK)
    traffic.run()
    assert len(traffic.starts) == 12
    assert most_in(traffic.times, S) == 2
    assert traffic.times[-1] == 5 * S


def test_retries_count_in_the_quota():
    """CP-083: 3 jobs, 2 per 1000 ms, 4 attempts, no delay, all 500 -> exactly 2 sends in the first 100 ms."""
    traffic = stage(rate=Rate(2, 1, kind="fixed"))
    retry = Retry(attempts=4, backoff=Backoff(base=0.000_001, jitter=None))
    for _ in range(3):
        traffic.submit(0, retry=retry, takes=MS, answer=lambda _number, _at: FAILED)
    traffic.run()
    assert sum(time < 100 * MS for time in traffic.times) == 2
    assert len(traffic.times) == 12


@pytest.mark.parametrize("seed", range(5))
def test_a_server_tolerates_the_limit_with_its_own_clock_and_jitter(seed):
    """WN-05: fixed 5 per 1 s at a random phase, 0-100 ms of latency, client limit 5 per 1 s, 60 requests."""
    chance, traffic, seen = random.Random(seed), stage(rate="5/s"), {}
    phase = chance.randrange(S)

    def answer(_number: int, at: int) -> Outcome:
        window = (at + phase) // S
        seen[window] = seen.get(window, 0) + 1
        return OK if seen[window] <= 5 else REFUSED

    for _ in range(60):
        latency = chance.randrange(100 * MS)
        traffic.submit(0, takes=latency, transit=latency // 2, answer=answer, retry=Retry(retries=3))
    traffic.run()
    assert [outcome for _, _, outcome in traffic.done] == [OK] * 60
    assert sum(max(0, count - 5) for count in seen.values()) <= 3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("extra", [{}, {"spread": True}, {"kind": "fixed"}])
def test_measured_at_the_server_no_window_is_over_there_whatever_the_jitter(seed, extra):
    chance, limit, per = random.Random(seed), 10, S
    traffic = stage(rate=Rate(limit, 1, measured="server", **extra), concurrency=None)
    takes = [chance.randrange(2 * MS, 300 * MS) for _ in range(200)]
    for latency in takes:
        traffic.submit(0, connect=chance.randrange(20 * MS), takes=latency, transit=chance.randrange(latency))
    traffic.run()
    if "kind" in extra:  # its windows are the client's
        windows = [arrival // per for arrival in traffic.arrivals]
        assert max(windows.count(window) for window in windows) <= limit
    else:
        assert most_in(traffic.arrivals, per) <= limit
    assert traffic.times[-1] <= 200 / limit * (per + max(takes) + 20 * MS)


def test_measured_at_the_server_an_entry_counts_from_its_grant_until_a_window_after_its_answer():
    limiter = host(rate=Rate(1, 1, measured="server"))
    first = run(limiter, 0)
    come(limiter, 1)
    assert limiter.admit(500 * S).wake_at == NEVER
    limiter.answered(first, 500 * S)
    limiter.release(first, 600 * S)
    assert limiter.admit(500 * S).wake_at == 501 * S


def test_measured_at_the_server_an_unanswered_entry_counts_until_a_window_after_its_end():
    limiter = host(rate=Rate(1, 1, measured="server"))
    limiter.release(run(limiter, 0), 30 * S)
    assert limiter.earliest(30 * S) == 31 * S


def test_the_time_jumps_by_hours_without_harm():
    traffic = stage(rate=["5/s", Rate(8, 60, kind="fixed"), Rate(3, 1, burst=4)])
    for when in (0, 3 * 3600 * S, 3 * 3600 * S + 1):
        for _ in range(6):
            traffic.submit(when)
    traffic.run()
    assert len(traffic.times) == 18
    assert most_in(traffic.times, S) <= 5
    assert traffic.quiet


# ---- cost --------------------------------------------------------------------------------------------


BUDGETS = ["3/s", "100 tokens/s"]


def test_named_budgets_are_taken_together():
    limiter = host(rate=BUDGETS)
    run(limiter, 0, cost={"tokens": 90})
    assert limiter.earliest(1, limiter.meters.costs({"tokens": 11})) == S
    assert limiter.earliest(1, limiter.meters.costs({"tokens": 10})) == 1
    assert limiter.meters.costs(2) == (2, 0)
    assert limiter.meters.costs({"tokens": 7}) == (1, 7)
    assert limiter.meters.costs({"requests": 0, "tokens": 7}) == (0, 7)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (4, "cost=4 cannot be used: over the limit it could never start; it needs at most 3 (requests)"),
        ({"tokens": 101}, "at most 100 (tokens)"),
        ({"token": 1}, "no rate counts this; it needs one of the budgets requests, tokens"),
        ({"tokens": -1}, "tokens"),
        (True, "requests"),
        (1.5, "requests"),
    ],
)
def test_a_cost_that_could_never_start_is_refused_at_once(cost, message):
    with pytest.raises(OptionsError, match=re.escape(message)):
        host(rate=BUDGETS).meters.costs(cost)


def test_a_bucket_bounds_a_cost_by_its_size():
    limiter = host(rate=Rate(10, 1, burst=20))
    assert limiter.meters.costs(20) == (20,)
    with pytest.raises(OptionsError):
        limiter.meters.costs(21)


def test_a_big_cost_is_not_starved_by_small_ones():
    traffic = stage(rate="10/s", concurrency=None)
    for number in range(100):
        traffic.submit(number * 100 * MS, "small")
    traffic.submit(900 * MS + 1, "big", cost=8)
    traffic.run()
    assert dict(map(reversed, traffic.starts))["big"] <= 2 * S
    assert len(traffic.starts) == 101


@pytest.mark.parametrize("measured", ["client", "server"])
@pytest.mark.parametrize("estimate", [0, 60])
@pytest.mark.parametrize("when", ["started", "answered", "done"])
def test_settling_charges_what_it_really_was_and_leaves_nothing_behind(measured, estimate, when):
    limiter = host(rate=Rate(100, 1, unit="tokens", measured=measured))
    ticket = run(limiter, 0, cost={"tokens": estimate})
    if when != "started":
        limiter.answered(ticket, 10)
    if when == "done":
        limiter.release(ticket, 10)
    limiter.settle(ticket, {"tokens": 95}, 10)
    assert limiter.earliest(10, (5,)) == 10
    assert limiter.earliest(10, (6,)) >= S
    limiter.settle(ticket, {"tokens": 0}, 11)
    assert limiter.earliest(11, (100,)) == 11
    limiter.settle(ticket, {"tokens": 30}, 12)
    limiter.answered(ticket, 20)
    limiter.release(ticket, 20)
    assert limiter.earliest(30, (71,)) <= S + 20
    assert limiter.idle(2 * S)


def test_settling_what_never_started_does_nothing():
    limiter = host(rate=BUDGETS)
    ticket = come(limiter, 0, cost={"tokens": 50})
    limiter.settle(ticket, {"tokens": 100}, 0)
    limiter.admit(0)
    limiter.settle(ticket, {"tokens": 100}, 0)
    limiter.release(ticket, 0)
    limiter.settle(ticket, {"tokens": 100}, 0)
    assert limiter.idle(0)


def test_settling_at_the_beginning_of_time_counts():
    limiter = host(rate="100 tokens/s")
    ticket = run(limiter, 0, cost={"tokens": 100})
    limiter.settle(ticket, {"tokens": 1}, 0)
    assert limiter.earliest(0, (99,)) == 0


def test_settling_after_a_cancellation_leaves_nothing_behind():
    limiter = host(rate=BUDGETS)
    ticket = run(limiter, 0)
    limiter.withdraw(ticket, 1)
    limiter.settle(ticket, {"tokens": 40}, 2)
    assert limiter.idle(2 * S)


@pytest.mark.parametrize("actual", [{"token": 5}, {"requests": 1, "tokens": -5}, {"requests": 9, "tokens": 2.5}])
def test_settling_with_a_wrong_cost_changes_nothing(actual):
    limiter = host(rate=BUDGETS)
    ticket = run(limiter, 0, cost={"tokens": 10})
    with pytest.raises(OptionsError):
        limiter.settle(ticket, actual, 1)
    assert limiter.earliest(1, (2, 90)) == 1


def test_a_retry_is_charged_its_estimate_again_however_the_attempt_before_was_settled():
    limiter = host(rate="100 tokens/s")
    ticket = run(limiter, 0, cost={"tokens": 60})
    limiter.settle(ticket, {"tokens": 500}, 1)
    limiter.release(ticket, 1)
    limiter.enqueue(ticket, 2)
    assert limiter.admit(2).wake_at == S
    assert limiter.admit(S).granted == [ticket]
    limiter.started(ticket, S)
    assert limiter.earliest(S, (40,)) == S
    run(limiter, 2 * S, cost={"tokens": 100})
    assert limiter.earliest(2 * S, (1,)) == 3 * S


def test_the_short_way_takes_of_every_rate_or_of_none():
    """LA-05: the second rate is full, so the first keeps what it had."""
    limiter = host(concurrency=None, rate=["3/s", "1/s", "5/s"])
    assert limiter.take(0)
    assert not limiter.take(1)
    assert [window.used for window in limiter.quick] == [1, 1, 1]
    assert [len(window.times) for window in limiter.quick] == [1, 1, 1]
    assert limiter.take(S)
    assert limiter.running == 2
