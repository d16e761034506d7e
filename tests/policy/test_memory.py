"""HostMemory: a new limiter goes on where the last one was."""

from __future__ import annotations

import pytest

from comity.policy.limiter import HostLimiter
from comity.policy.memory import HostMemory, recall, remember
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.steady import Steady
from comity.policy.ticket import Ticket
from comity.policy.units import NS
from comity.policy.windows import KEPT

WALL = 1_700_000_000 * NS


def use(limiter: HostLimiter, *times: float, cost: object = 1) -> None:
    """Start and end a request at each time, seconds."""
    for time in times:
        at = round(time * NS)
        ticket = Ticket(5, limiter.meters.costs(cost))  # type: ignore[arg-type]
        assert limiter.grant_at_once(ticket, at)
        limiter.started(ticket, at)
        limiter.release(ticket, at)


def again(limiter: HostLimiter, now: float, later: float, policy: Policy | None = None) -> HostLimiter:
    """Return a limiter of another process, `later` seconds after the first was left; its clock begins at 1000 s."""
    kept = remember(limiter, round(now * NS), WALL)
    new = HostLimiter(policy or limiter.policy, 1000 * NS)
    if kept is not None:
        recall(new, kept, 1000 * NS, WALL + round(later * NS))
    return new


def free_in(limiter: HostLimiter) -> float:
    """Return the seconds until the next start, at 1000 s."""
    return (limiter.earliest(1000 * NS) - 1000 * NS) / NS


def test_what_is_open_of_a_window_stays_open_until_its_time():
    limiter = HostLimiter(Policy(rate="3/10s"), 0)
    use(limiter, 0, 4, 5)
    assert free_in(again(limiter, 6, 1)) == 3
    new = again(limiter, 6, 5)
    use(new, 1000)
    assert free_in(new) == 3, (
        "the second leaves at 14 s, which is 5 s after the first process was left and 3 s from now"
    )
    assert free_in(again(limiter, 6, 20)) == 0


def test_a_long_window_is_kept_in_a_few_entries_that_are_never_too_old():
    limiter = HostLimiter(Policy(rate="1000/h", concurrency=None), 0)
    use(limiter, *(number / 10 for number in range(1000)))
    kept = remember(limiter, 100 * NS, WALL)
    (entries,) = kept.taken.values()
    assert KEPT <= len(entries) <= 2 * KEPT
    assert sum(cost for _, cost in entries) == 1000
    assert 3500 <= free_in(again(limiter, 100, 0)) <= 3502


@pytest.mark.parametrize(
    ("rate", "later", "seconds"),
    [
        (Rate(2, 10, kind="fixed"), 1, 10),
        (Rate(2, 10, burst=2), 1, 4),
        (Rate(2, 10, burst=2), 9, 0),
        (Rate(2, 10, spread=True), 1, 9),
        (Rate(2, 10, measured="server"), 1, 9),
    ],
    ids=["fixed", "bucket", "refilled", "spread", "server"],
)
def test_every_kind_of_rate_goes_on(rate, later, seconds):
    limiter = HostLimiter(Policy(rate=rate), 0)
    use(limiter, 0, *([5] if rate.spread else [0]))
    if rate.spread:
        assert free_in(again(limiter, 5, later)) == 10 - 5 - later
        return
    assert free_in(again(limiter, 0, later)) == seconds


def test_each_budget_is_kept_by_itself():
    policy = Policy(rate=["9/h", "100 tokens/h"])
    limiter = HostLimiter(policy, 0)
    use(limiter, 0, cost={"tokens": 90})
    new = again(limiter, 0, 60)
    assert new.earliest(1000 * NS, new.meters.costs({"tokens": 10})) == 1000 * NS
    assert new.earliest(1000 * NS, new.meters.costs({"tokens": 11})) == (1000 + 3600 - 60) * NS


@pytest.mark.parametrize(
    ("rate", "wait"),
    [
        ("2/min", 57), ("4/min", 0), ("3/20s", 13), (Rate(3, 60, kind="fixed"), 60), (Rate(6, 60, burst=3), 3), ("9 tokens/min", 0),
    ],
    ids=["lower", "room", "longer", "fixed", "bucket", "budget"],
)  # fmt: skip
def test_what_is_open_counts_for_another_rate_of_the_same_unit(rate, wait):
    """Three started at 0, 4 and 5 s; now it is 7 s."""
    limiter = HostLimiter(Policy(rate=["3/10s", "9/10s"]), 0)
    use(limiter, 0, 4, 5)
    assert free_in(again(limiter, 6, 1, Policy(rate=rate))) == wait


def test_what_is_open_of_a_rate_that_cannot_be_read_is_passed_over():
    new = HostLimiter(Policy(rate="1/h"), 1000 * NS)
    recall(new, HostMemory(at=WALL, taken={"all of it": [(0, 1)]}), 1000 * NS, WALL)
    assert free_in(new) == 0


def refuse(limiter: HostLimiter, until: float, *, block: bool = False) -> None:
    ticket = Ticket(5, limiter.meters.ordinary)
    limiter.grant_at_once(ticket, 0)
    limiter.started(ticket, 0)
    limiter.release(ticket, 0)
    limiter.refuse_until(ticket, 0, round(until * NS), refused=True, hinted=True, block=block)


def test_a_pause_and_a_block_go_on_and_end_at_their_time():
    limiter = HostLimiter(Policy(learn=None), 0)
    refuse(limiter, 30)
    new = again(limiter, 10, 5)
    assert (free_in(new), new.cap) == (15, 1)
    assert again(limiter, 10, 25).cap == 10
    refuse(limiter, 60, block=True)
    assert again(limiter, 10, 5).pause.blocked_until == 1045 * NS


def test_a_learned_gap_fades_with_its_age():
    limiter = HostLimiter(Policy(learn="gap"), 0)
    limiter.gap.learned = 4 * NS
    assert again(limiter, 0, 0).gap.learned == 4 * NS
    assert again(limiter, 0, 60).gap.learned == 2 * NS
    assert again(limiter, 0, 300).gap.learned == 0
    assert again(limiter, 0, 10**9).gap.learned == 0
    assert again(limiter, 0, 0, Policy(learn=None)).gap.learned == 0


def test_a_clock_that_was_set_back_makes_nothing_younger_or_older():
    limiter = HostLimiter(Policy(rate="1/10s"), 0)
    use(limiter, 0)
    assert free_in(again(limiter, 4, -3600)) == 6


def test_a_host_that_taught_nothing_is_not_kept():
    assert remember(HostLimiter(Policy(rate="5/s"), 0), 0, WALL) is None


@pytest.mark.parametrize(
    ("policy", "later", "rate", "limit"),
    [
        ({"adaptive": True}, 60, 40.0, 4.0),
        ({"adaptive": True}, 90_000, None, 2.0),
        ({}, 60, 40.0, None),
        ({"adaptive": "ema"}, 60, 40.0, 10.0),
    ],
    ids=["auto", "too old", "refusals alone", "ema"],
)
def test_a_learned_rate_and_half_of_the_concurrency_are_where_the_next_begins(policy, later, rate, limit):
    before = HostLimiter(Policy(adaptive=True), 0)
    assert before.adaptive is not None
    before.adaptive.recall(40.0, 16.0, 0)
    after = again(before, 0, later, Policy(**policy)).adaptive
    assert after is not None
    assert (after.rate, after.limit) == (rate, limit)


@pytest.mark.parametrize("policy", [{"rate": "5/s"}, {"learn": "gap"}])
def test_a_learned_rate_is_no_use_where_one_is_given_or_another_law_holds(policy):
    before = HostLimiter(Policy(adaptive=True), 0)
    assert before.adaptive is not None
    before.adaptive.recall(40.0, None, 0)
    assert again(before, 0, 1, Policy(**policy)).adaptive is None


@pytest.mark.parametrize("adaptive", [True, "ema"])
def test_what_is_not_known_is_learned_anew(adaptive):
    control = HostLimiter(Policy(adaptive=adaptive), 0).adaptive
    assert control is not None
    before = (control.rate, control.limit, control.cap)
    control.recall(None, None, 0)
    assert (control.rate, control.limit, control.cap) == before
    steady = Steady(0, 0, 0)
    steady.recall(None, 7.0, 0)
    assert steady.rate is None
