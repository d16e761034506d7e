"""Meters: how much of a rate is taken, and when there is room again. Pure: every test passes `now`, ns."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings, strategies as st

from comity.policy.rate import Rate
from comity.policy.windows import GRAINS, NEVER, FixedWindow, SlidingWindow, Spacing, TokenBucket, meters
from tests.policy.naive import FOREVER, Entry, Limit

MS = 1_000_000
S = 1_000 * MS


def begin(meter, now: int, cost: int = 1) -> int:
    """Reserve and start at once."""
    assert meter.earliest(now, cost) == now
    meter.reserve(cost)
    return meter.start(now, cost)


# ---- sliding -------------------------------------------------------------------------------------


def test_a_sliding_window_has_room_again_when_its_first_start_is_a_window_old_and_not_a_nanosecond_before():
    """PF-009, CP-009: at most `count` starts in any window; half-open, so a start at t and one at t + per may both be."""
    window = SlidingWindow(2, S)
    begin(window, 5)
    begin(window, 10)
    assert window.earliest(11, 1) == 5 + S
    assert not window.fits(4 + S, 1)
    assert window.fits(5 + S, 1)
    begin(window, 5 + S)
    assert window.earliest(5 + S, 1) == 10 + S


def test_a_reserved_entry_counts_until_it_started_and_then_for_a_window_from_there():
    window = SlidingWindow(1, S)
    window.reserve(1)
    assert window.earliest(100 * S, 1) == NEVER
    window.start(200 * S, 1)
    assert window.earliest(200 * S, 1) == 201 * S


@pytest.mark.parametrize("meter", [SlidingWindow(1, S), FixedWindow(1, S, 0), TokenBucket(1, S, 1), Spacing(1, S)])
def test_what_never_started_leaves_no_trace(meter):
    meter.reserve(1)
    assert meter.earliest(5, 1) == NEVER
    assert not meter.idle(5)
    meter.undo(1)
    assert meter.earliest(5, 1) == 5
    assert meter.idle(5)


@pytest.mark.parametrize("meter", [SlidingWindow(1, S), FixedWindow(1, S, 0), TokenBucket(1, S, 1), Spacing(1, S)])
def test_a_meter_is_idle_again_a_window_after_its_start(meter):
    begin(meter, 0)
    assert not meter.idle(S - 1)
    assert meter.idle(S)


def test_a_cost_waits_for_as_many_entries_as_it_needs():
    window = SlidingWindow(10, S)
    for at, cost in ((0, 3), (1, 1), (2, 6)):
        begin(window, at, cost)
    assert [window.earliest(5, cost) for cost in (3, 4, 5, 10)] == [S, 1 + S, 2 + S, 2 + S]


@pytest.mark.parametrize(("change", "room_at"), [(-2, 7), (0, S), (5, S)])
def test_settling_edits_the_entry_at_its_original_start(change, room_at):
    window = SlidingWindow(5, S)
    mark = begin(window, 0, 3)
    begin(window, 1, 2)
    window.settle(mark, change)
    assert window.earliest(7, 2) == room_at


def test_an_overdraft_delays_until_its_entry_is_gone():
    window = SlidingWindow(5, S)
    mark = begin(window, 0)
    begin(window, 1)
    window.settle(mark, 100)
    assert window.earliest(2, 1) == S
    assert window.fits(S, 4)


def test_settling_what_is_older_than_a_window_changes_nothing():
    window = SlidingWindow(5, S)
    mark = begin(window, 0, 5)
    begin(window, S, 5)
    window.settle(mark, 50)
    window.settle(mark, -50)
    assert window.earliest(S, 1) == 2 * S


def test_an_entry_that_is_settled_to_nothing_and_back_still_counts():
    window = SlidingWindow(5, S)
    mark = begin(window, 0, 5)
    window.settle(mark, -5)
    window.settle(mark, 5)
    assert window.earliest(1, 1) == S


def test_a_start_costs_constant_work_however_many_starts_there_were():
    """One look at the oldest entry decides; nothing is counted anew."""

    class Counting(deque):
        looks = 0

        def __getitem__(self, place):
            Counting.looks += 1
            return super().__getitem__(place)

        def __iter__(self):
            for each in super().__iter__():
                Counting.looks += 1
                yield each

    window = SlidingWindow(50_000, S)
    window.times = Counting()
    for at in range(50_000):
        begin(window, at)
    Counting.looks = 0
    for at in range(S, S + 10_000):
        assert window.earliest(at - 1, 1) == at
        begin(window, at)
    assert Counting.looks <= 6 * 10_000


# ---- sub-buckets ---------------------------------------------------------------------------------


def test_a_huge_window_keeps_a_bounded_number_of_times():
    window = SlidingWindow(1_000_000, S)
    for at in range(0, S, S // 500_000):
        begin(window, at)
    assert len(window.times) <= GRAINS + 1


@given(
    gaps=st.lists(st.integers(0, S // 500), min_size=1, max_size=60),
    costs=st.lists(st.integers(1, 60_000), min_size=60, max_size=60),
)
def test_a_huge_window_is_never_over_and_frees_at_most_a_sub_bucket_late(gaps, costs):
    limit, now, starts = 200_000, 0, []
    window = SlidingWindow(limit, S)
    for gap, cost in zip(gaps, costs, strict=False):
        now += gap
        at = window.earliest(now, cost)
        naive = [t for t in sorted({now, *(s + S for s, _ in starts)}) if t >= now and _sum(starts, t) + cost <= limit]
        assert naive[0] <= at <= naive[0] + S // GRAINS
        now = at
        assert _sum(starts, now) + cost <= limit
        begin(window, now, cost)
        starts.append((now, cost))


def _sum(starts: list[tuple[int, int]], now: int) -> int:
    return sum(cost for start, cost in starts if now < start + S)


def test_settling_in_a_huge_window_edits_the_sub_bucket_of_the_start():
    window = SlidingWindow(200_000, S)
    first = begin(window, 0, 150_000)
    begin(window, 1, 50_000)
    window.settle(first, -100_000)
    assert window.earliest(2, 100_000) == 2
    assert window.earliest(2, 100_001) == 1 + S


# ---- fixed ---------------------------------------------------------------------------------------


def test_a_fixed_window_lets_the_whole_burst_start_at_once_and_the_rest_in_the_next():
    """CP-011: quota without "auto" is a fixed window; CP-009, CP-010."""
    window = FixedWindow(2, S, anchor=100)
    begin(window, 100)
    begin(window, 99 + S)
    assert window.earliest(99 + S, 1) == 100 + S
    begin(window, 100 + S)
    begin(window, 100 + S)
    assert window.earliest(100 + S, 1) == 100 + 2 * S


def test_a_fixed_window_counts_what_was_reserved_before_the_boundary_and_starts_after_it():
    window = FixedWindow(2, S, anchor=0)
    window.reserve(1)
    window.reserve(1)
    assert window.earliest(S, 1) == NEVER
    window.start(S, 1)
    window.undo(1)
    begin(window, S)
    assert window.earliest(S, 1) == 2 * S


def test_settling_counts_in_the_fixed_window_of_the_start_and_in_no_other():
    window = FixedWindow(5, S, anchor=0)
    mark = begin(window, 0, 3)
    window.settle(mark, 2)
    assert window.earliest(0, 1) == S
    window.settle(mark, -4)
    assert window.earliest(0, 4) == 0
    begin(window, S, 5)
    window.settle(mark, -1)
    assert window.earliest(S, 1) == 2 * S


# ---- bucket --------------------------------------------------------------------------------------


def test_a_bucket_starts_full_and_refills_at_the_rate_with_nothing_rounded_away():
    bucket = TokenBucket(3, S, burst=2)
    begin(bucket, 0)
    begin(bucket, 0)
    assert bucket.earliest(0, 1) == 333_333_334
    begin(bucket, 333_333_334)
    assert bucket.earliest(333_333_334, 1) == 666_666_667
    begin(bucket, 666_666_667)
    assert bucket.earliest(666_666_667, 1) == S
    assert bucket.earliest(666_666_667, 3) == NEVER


def test_a_bucket_gets_back_what_was_not_used():
    bucket = TokenBucket(10, S, burst=10)
    mark = begin(bucket, 0, 10)
    bucket.settle(mark, -9)
    assert bucket.earliest(0, 9) == 0
    assert bucket.earliest(0, 10) == 100 * MS


def test_a_bucket_does_not_get_back_what_would_have_run_over():
    """5 of 10 were reserved, the bucket was full again half a second later: giving them back then adds nothing."""
    bucket = TokenBucket(10, S, burst=10)
    mark = begin(bucket, 0, 5)
    begin(bucket, 500 * MS, 9)
    bucket.settle(mark, -5)
    assert bucket.earliest(500 * MS, 1) == 500 * MS
    assert bucket.earliest(500 * MS, 2) == 600 * MS


def test_a_bucket_that_gets_back_twice_does_not_run_over_either():
    """5 and 5 of 10 reserved, 2 more after 0.2 s, when 2 had come in: of the 10 given back 8 find room."""
    bucket = TokenBucket(10, S, burst=10)
    marks = [begin(bucket, 0, 5), begin(bucket, 0, 5)]
    begin(bucket, 200 * MS, 2)
    for mark in marks:
        bucket.settle(mark, -5)
    assert bucket.earliest(200 * MS, 8) == 200 * MS
    assert bucket.earliest(200 * MS, 9) == 300 * MS


def test_a_bucket_under_constant_load_remembers_next_to_nothing():
    bucket, now = TokenBucket(7, S, burst=5), 0
    for number in range(10_000):
        cost = 1 + number % 5
        now = bucket.earliest(now, cost)
        begin(bucket, now, cost)
    assert len(bucket._lows) <= 10


def test_an_overdraft_of_a_bucket_delays_by_what_it_took():
    bucket = TokenBucket(10, S, burst=10)
    mark = begin(bucket, 0, 10)
    bucket.settle(mark, 10)
    assert bucket.earliest(0, 1) == 1_100 * MS


# ---- spacing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "spacing"),
    [
        (Rate(100, 60, spread=True), 600 * MS),
        (Rate(3, 1, spread=True), 333_333_334),
        (Rate(3, 3, spread=True, kind="fixed"), S),
    ],
)
def test_auto_spaces_by_the_window_over_the_count_rounded_up(rate, spacing):
    """CP-008: minTime "auto" is ceil(window / max), 100 per 60000 ms -> 600 ms; CP-012: the window holds as well."""
    window, spaced = meters(rate, 0)
    assert isinstance(window, FixedWindow if rate.kind == "fixed" else SlidingWindow)
    begin(spaced, 1)
    assert spaced.earliest(1, 1) == 1 + spacing


def test_spacing_follows_the_cost_and_its_correction_to_the_nanosecond():
    spaced = Spacing(3, S)
    mark = begin(spaced, 0, 2)
    assert spaced.earliest(0, 1) == 666_666_667
    spaced.settle(mark, -1)
    assert spaced.earliest(0, 1) == 333_333_334
    spaced.settle(mark, -1)
    assert spaced.earliest(0, 1) == 0


def test_spacing_forgets_a_correction_when_another_has_started_since():
    spaced = Spacing(1, S)
    mark = begin(spaced, 0)
    begin(spaced, S)
    spaced.settle(mark, 10)
    assert spaced.earliest(S, 1) == 2 * S


def test_each_kind_of_rate_has_its_meters():
    kinds = [
        [type(meter) for meter in meters(rate, 0)]
        for rate in (Rate(1, 1), Rate(1, 1, kind="fixed"), Rate(1, 1, burst=5), Rate(1, 1, spread=True))
    ]
    assert kinds == [[SlidingWindow], [FixedWindow], [TokenBucket], [SlidingWindow, Spacing]]


# ---- every kind against a naive count --------------------------------------------------------------

makers = st.sampled_from(
    [
        (lambda: SlidingWindow(7, 40), lambda: Limit(kind="sliding", most=7, per=40), 7),
        (lambda: FixedWindow(7, 40, 13), lambda: Limit(kind="fixed", most=7, per=40, anchor=13), 7),
        (lambda: TokenBucket(3, 40, 7), lambda: Limit(kind="bucket", most=3, per=40, bucket=7), 7),
        (lambda: Spacing(3, 40), lambda: Limit(kind="spacing", most=3, per=40), 7),
    ]
)
moves = st.lists(
    st.tuples(st.sampled_from(["grant", "grant", "start", "start", "undo", "settle", "pass"]), st.integers(0, 30)),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(made=makers, moves=moves, probes=st.lists(st.integers(1, 7), min_size=2, max_size=2))
def test_every_meter_says_what_a_naive_count_says(made, moves, probes):
    meter, limit, most = made[0](), made[1](), made[2]
    now, marks = 13, {}
    for move, number in moves:
        reserved = [entry for entry in limit.entries if entry.at is None]
        if move == "pass":
            now += number
        elif move == "grant":
            cost = 1 + number % most
            if limit.allows(now, cost):
                meter.reserve(cost)
                limit.entries.append(Entry(cost))
        elif move == "settle" and marks:
            entry = list(marks)[-1 - number % len(marks)]
            real = number % (entry.cost + 1) if limit.kind == "bucket" else number % 10  # see the overdraft's own test
            meter.settle(marks[entry], real - entry.cost)
            entry.cost = real
        elif reserved and move == "undo":
            entry = reserved[number % len(reserved)]
            meter.undo(entry.cost)
            limit.entries.remove(entry)
        elif reserved and move == "start":
            entry = reserved[number % len(reserved)]
            marks[entry] = meter.start(now, entry.cost)
            limit.date(entry, now)
        for cost in probes:
            moments = sorted({now, *limit.moments(now, cost)})
            naive = next((at for at in moments if at >= now and limit.allows(at, cost)), FOREVER)
            assert meter.earliest(now, cost) == min(naive, NEVER)


class Counted(deque):
    """Counts how often it is walked."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()


def test_a_big_cost_that_waits_is_reckoned_once_however_often_it_is_asked_for():
    window = SlidingWindow(1_000, 1_000_000)
    window.times = Counted()
    for now in range(990):
        window.reserve(1)
        window.start(now, 1)
    window.reserve(10)
    answers = {window.earliest(1_000 + step, 500) for step in range(100)}
    window.start(1_200, 10)
    answers.add(window.earliest(1_300, 500))
    assert (answers, window.times.walks) == ({1_000_499}, 1)


def test_a_cost_that_waits_for_a_grant_to_start_is_reckoned_anew_when_it_does():
    window = SlidingWindow(10, 100)
    window.reserve(5)
    assert window.earliest(1, 8) == NEVER
    window.start(2, 5)
    assert window.earliest(3, 8) == 102


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (lambda window, mark: window.settle(mark, -3), 60),
        (lambda window, mark: window.settle(mark, 1), 101),
        (lambda window, mark: window.undo(2), 60),
    ],
)
def test_what_was_reckoned_is_forgotten_when_a_cost_changes(change, answer):
    window = SlidingWindow(10, 100)
    for now, cost in ((1, 4), (50, 4)):
        window.reserve(cost)
        mark = window.start(now, cost)
    window.reserve(2)
    assert window.earliest(60, 2) == 101
    change(window, mark)
    assert window.earliest(60, 2) == answer
