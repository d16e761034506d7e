"""Server: the judge of the benchmarks."""

from __future__ import annotations

from hypothesis import given, strategies as st

from benchmarks.server import Judge
from benchmarks.windows import over

SECOND = 1_000_000_000


def test_a_place_is_free_again_exactly_one_window_after_it_was_taken():
    judge = Judge(limit=2, per=1.0, delay=0)
    for now in (0, 5, 6, SECOND - 1, SECOND, SECOND + 4, SECOND + 5):
        judge.judge(now)
    assert [status for _, status in judge.log] == [200, 200, 429, 429, 200, 429, 200]


@given(gaps=st.lists(st.integers(0, SECOND // 2), max_size=40), limit=st.integers(1, 5))
def test_no_window_holds_more_accepted_requests_than_the_limit(gaps, limit):
    judge, now = Judge(limit=limit, per=1.0, delay=0), 0
    for gap in gaps:
        now += gap
        judge.judge(now)
    assert not over([arrival for arrival, status in judge.log if status == 200], limit, SECOND)
