"""RateLaw: the pace that refusals teach. Pure: every test passes `now`, ns."""

from __future__ import annotations

import math

import pytest

from comity.policy.rate_law import RateLaw
from comity.policy.units import seconds


class Law(RateLaw):
    """One that is told of starts and ends in seconds, and counts the starts."""

    def __init__(self) -> None:
        super().__init__(0)
        self.ranks = 0

    def go(self, now: float) -> int:
        self.begin(self.ranks, seconds(now))
        self.ranks += 1
        return self.ranks - 1

    def yes(self, now: float) -> None:
        self.accept(self.go(now), seconds(now), self.ranks)

    def no(self, now: float, hint: float | None = None, *, rank: int | None = None) -> None:
        rank = self.go(now) if rank is None else rank
        self.refuse(rank, seconds(now), seconds(now), self.ranks, None if hint is None else seconds(hint))

    @property
    def wait(self) -> float:
        return self.until / 1e9


def learned(rate: float = 10.0) -> Law:
    """Return a law that learned a rate by one episode, which ended at 2 s."""
    law = Law()
    for n in range(round(2 * rate)):
        law.yes(n / rate / 4)
    law.no(0.5)
    law.yes(2.0)
    law.rate = rate
    return law


def test_without_a_refusal_nothing_is_held_back():
    law = Law()
    for n in range(1_000):
        law.yes(n / 1_000)
    assert (law.until, law.rate, law.pace(seconds(1))) == (0, None, math.inf)


def test_the_first_probe_waits_a_quarter_of_a_second_and_the_next_twice_as_long_up_to_one():
    law, waits, now = Law(), [], 1.0
    law.no(now)
    for _ in range(4):
        waits.append(law.wait - now)
        now = law.wait
        law.no(now)
    assert waits == [0.25, 0.5, 1.0, 1.0]


def test_one_probe_at_a_time_goes_out_while_refused():
    law = Law()
    law.no(1.0)
    law.go(law.wait)
    assert law.wait == 6.25


def test_a_named_wait_is_kept():
    law = Law()
    law.no(1.0, hint=7)
    assert law.wait == 8.0
    law.no(8.0, hint=3)
    assert law.wait == 11.0


def test_refusals_of_what_was_under_way_tell_nothing_but_a_later_time():
    law = Law()
    early = [law.go(0.9), law.go(0.9)]
    law.no(1.0)
    law.no(1.1, rank=early[0])
    assert law.wait == 1.25
    law.no(1.1, 9, rank=early[1])
    assert law.wait == 10.1


def test_a_refusal_of_before_the_episode_begins_no_new_one_after_it():
    law = Law()
    early = law.go(0.9)
    law.no(1.0)
    law.yes(1.25)
    law.no(1.3, rank=early)
    assert not law.refused


def test_a_success_of_before_the_episode_does_not_end_it():
    law = Law()
    early = law.go(0.9)
    law.no(1.0)
    law.accept(early, seconds(1.1), law.ranks)
    assert law.refused


def test_what_was_accepted_between_the_ends_of_two_episodes_is_the_rate():
    law = learned(10.0)
    for n in range(59):
        law.yes(2.0 + n / 15)
    law.no(6.0)
    law.yes(8.0)
    assert law.rate == pytest.approx(10.0)


def test_with_a_known_rate_the_first_probe_goes_out_after_two_requests_worth_of_time():
    law = learned(10.0)
    law.no(4.0)
    assert law.wait == 4.2


def test_the_pace_creeps_for_eight_seconds_and_then_grows_fast():
    law = learned(100.0)
    paces = [law.pace(seconds(2 + t)) for t in (0, 4, 8, 12, 16, 999)]
    assert paces == pytest.approx([97, 98.2, 99.4, 99.4 * math.exp(0.75), 99.4 * math.exp(2), 99.4 * math.exp(30)])


def test_starts_are_spaced_by_the_pace():
    law = learned(100.0)
    later = law.wait + 0.2
    law.go(later)
    law.go(law.wait)
    assert law.wait - later == pytest.approx(2 / 97, rel=1e-3)


def test_time_in_which_the_pace_held_nothing_back_does_not_raise_it():
    law = learned(10.0)
    law.go(60.0)
    assert law.pace(seconds(60)) < 10.0


def test_growth_that_met_no_refusal_for_long_tells_that_the_rate_rose():
    law = learned(10.0)
    sent, now = 0, law.wait
    while now < 20.0:
        law.yes(now)
        sent, now = sent + 1, max(now + 1e-9, law.wait)
    law.no(20.0)
    pace = law.pace(seconds(20))
    law.yes(law.wait)
    assert law.rate is not None
    assert sent / 18 * 1.2 < law.rate < pace


def test_refusals_over_many_requests_worth_of_time_tell_a_window():
    """Until its length has passed, an episode says nothing about the rate."""
    law = Law()
    for n in range(100):
        law.yes(n / 100)
    now = 1.0
    while now < 10.0:
        law.no(now)
        now = law.wait
    law.yes(now)
    assert law.rate == pytest.approx(8.5, rel=0.1)  # the last probe may come some seconds late
    before = law.rate
    law.no(now + 2)
    law.yes(now + 4)
    assert law.rate == before
    for n in range(120):
        law.yes(now + 4 + n / 15)
    law.no(now + 12.5)
    law.yes(now + 13.5)
    assert law.rate == pytest.approx(9.1, rel=0.2)


def test_a_long_wait_that_the_server_named_tells_a_window_too():
    law = Law()
    for n in range(100):
        law.yes(n / 100)
    law.no(1.0, hint=9)
    law.yes(10.0)
    assert law.rate == pytest.approx(10.1)


def test_a_refusal_of_too_many_at_once_is_not_counted_as_accepted():
    law = Law()
    for n in range(100):
        law.yes(n / 100)
        law.go(n / 100)
        law.crowded()
    law.no(1.0, hint=9)
    law.yes(10.0)
    assert law.rate == pytest.approx(10.1)


def test_a_probe_that_is_accepted_lets_the_next_start_though_too_few_were_for_an_estimate():
    law = Law()
    law.yes(0.0)
    law.no(0.1)
    law.yes(0.5)
    assert law.rate is None
    assert law.wait <= 0.5


def episode(law: Law, accepted: int, refused: int) -> None:
    """Let so many be accepted at the known rate, so many of those under way be refused, and one probe end that."""
    assert law.rate is not None
    begin = law.wait
    for n in range(accepted):
        law.yes(begin + n / law.rate)
    end = begin + accepted / law.rate
    ranks = [law.go(end) for _ in range(refused)]
    for rank in ranks:
        law.no(end, rank=rank)
    law.yes(law.wait)


def test_episodes_that_cost_much_make_the_pace_grow_more_slowly_and_cheap_ones_faster_again():
    law = learned(10.0)
    cautions = []
    for accepted, refused in ((20, 2), (20, 2), (150, 2), (300, 2)):
        episode(law, accepted, refused)
        cautions.append(law.caution)
    assert cautions == [2, 4, 4, 2]


def test_a_rate_that_changed_is_followed_without_caution():
    law = learned(10.0)
    for _ in range(3):
        episode(law, 20, 2)
    assert law.caution == 8
    known = law.wait
    for n in range(40):
        law.yes(known + n / 40)
    law.no(known + 1)
    law.yes(law.wait)
    assert law.caution == 1


def test_growth_ends_where_the_refused_request_started_however_late_its_answer_comes():
    def after(latency: float) -> float | None:
        law = learned(10.0)
        now, rank = law.wait, 0
        while now < 20.0:
            rank = law.go(now)
            law.accept(rank, seconds(now), law.ranks)
            now = max(now + 1e-9, law.wait)
        law.refuse(law.go(20.0), seconds(20.0), seconds(20.0 + latency), law.ranks, None)
        before, then = law.ranks, law.wait
        law.accept(law.go(then), seconds(then), law.ranks)
        assert law.ranks == before + 1
        return law.rate

    prompt, late = after(0.0), after(2.0)
    assert prompt is not None
    assert late == pytest.approx(prompt, rel=0.01)


def test_estimates_that_come_and_go_are_no_change():
    law, cautions, now = learned(10.0), [], 2.0
    for _ in range(3):
        for n in range(20):
            law.yes(now + n / 10)
        law.no(now + 2)
        law.yes(now + 2.2)
        law.no(now + 2.3)
        law.yes(now + 4.2)
        cautions.append(law.caution)
        now += 4.2
    assert cautions[-1] > 4
