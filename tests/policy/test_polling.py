"""polling: the two tables of waits between looks at unfinished work."""

from __future__ import annotations

import pytest

from comity.policy.polling import by_elapsed, by_percent
from comity.policy.units import NS, seconds


@pytest.mark.parametrize(
    ("elapsed", "wait"),
    [(0, 2), (4.999, 2), (5, 4), (14.999, 4), (15, 8), (29.999, 8), (30, 16), (31, 16), (10**9, 16), (-1, 2)],
)
def test_looks_grow_rarer_with_the_time_that_has_passed(elapsed, wait):
    """NP-041"""
    assert by_elapsed(seconds(elapsed)) == wait * NS


@pytest.mark.parametrize(
    ("percent", "wait"), [(0, 3), (25, 3), (25.9, 3), (26, 2), (75, 2), (75.9, 2), (76, 1), (99, 1), (100, 1)]
)
def test_looks_grow_more_frequent_with_what_is_done(percent, wait):
    """NP-042"""
    assert by_percent(percent) == wait * NS


@pytest.mark.parametrize(("job", "looks"), [(10, 4), (20, 7), (30, 8), (40, 9)])
def test_a_job_takes_as_many_looks_as_the_table_says(job, looks):
    """NP-045"""
    now = made = 0
    while now < job * NS:
        now += by_elapsed(now)
        made += 1
    assert made == looks
