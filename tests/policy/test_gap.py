"""Gap: the least time between two starts, given and learned. Pure: every test passes `now`, ns."""

from __future__ import annotations

import pytest

from comity.policy.gap import Gap
from comity.policy.windows import NEVER

MS = 1_000_000


def learned_after(refusals: int) -> Gap:
    gap = Gap()
    for _ in range(refusals):
        gap.refused()
    return gap


def succeed(gap: Gap, times: int) -> None:
    for _ in range(times):
        gap.succeeded()


@pytest.mark.parametrize(
    ("refusals", "learned"),
    [(0, 0), (1, 250), (2, 500), (3, 1_000), (4, 2_000), (5, 4_000), (6, 8_000), (7, 10_000), (8, 10_000)],
)
def test_refusals_widen_the_gap_from_250_ms_doubling_up_to_10_s(refusals, learned):
    """PF-015"""
    assert learned_after(refusals).learned == learned * MS


def test_twenty_successes_in_a_row_halve_the_gap_until_it_is_gone_below_250_ms():
    """PF-016"""
    gap, widths = learned_after(7), []
    while gap.learned:
        succeed(gap, 19)
        before = gap.learned
        succeed(gap, 1)
        assert gap.learned < before
        widths.append(gap.learned // MS)
    assert widths == [5_000, 2_500, 1_250, 625, 312, 0]


@pytest.mark.parametrize("breaks", [Gap.failed, Gap.refused])
def test_successes_that_are_not_in_a_row_do_not_halve_the_gap(breaks):
    """PF-016: 20 in a row."""
    gap = learned_after(2)
    succeed(gap, 19)
    breaks(gap)
    learned = gap.learned
    succeed(gap, 19)
    assert gap.learned == learned
    succeed(gap, 1)
    assert gap.learned == learned // 2


def test_successes_before_the_first_refusal_do_not_count():
    gap = Gap()
    succeed(gap, 19)
    gap.refused()
    succeed(gap, 1)
    assert gap.learned == 250 * MS


def test_the_learned_gap_is_added_to_the_callers_own():
    """CP-006, PF-011: the own gap is the least time between two starts."""
    gap = Gap(100 * MS)
    gap.reserve()
    gap.start(7)
    assert gap.earliest(8) == 7 + 100 * MS
    gap.refused()
    assert gap.earliest(8) == 7 + 350 * MS
    assert gap.earliest(400 * MS) == 400 * MS


def test_a_gap_that_may_not_learn_stays_as_it_was_given():
    gap = Gap(100 * MS, learns=False)
    gap.refused()
    assert gap.width == 100 * MS


def test_nobody_starts_while_a_granted_one_has_not_started_for_the_gap_counts_from_its_first_byte():
    gap = Gap(100 * MS)
    assert gap.earliest(0) == 0
    gap.reserve()
    assert gap.earliest(10**12) == NEVER
    gap.undo()
    assert gap.earliest(5) == 5


def test_a_gap_is_idle_when_it_has_passed_and_nothing_is_learned():
    gap = Gap(100)
    assert gap.idle(0)
    gap.reserve()
    assert not gap.idle(0)
    gap.start(0)
    assert not gap.idle(99)
    assert gap.idle(100)
    gap.refused()
    assert not gap.idle(10**18)
