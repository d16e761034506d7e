"""Ema: latency against its running average. Pure: every test tells the latencies."""

from __future__ import annotations

import pytest

from comity.policy.adaptive import Adaptive
from comity.policy.controller import Ending
from comity.policy.ema import Ema
from comity.policy.units import seconds


def caps(ema: Ema, *latencies: float, ending: Ending = Ending.OK) -> list[int]:
    """Return the cap after each answer, latencies in ms."""
    found = []
    for latency in latencies:
        start = ema.begin(1, 0)
        ema.end(start, 0, ending, seconds(latency / 1_000), None)
        found.append(ema.cap)
    return found


def ema(concurrency: int = 10, **options: object) -> Ema:
    return Ema(Adaptive(algorithm="ema", **options), concurrency)


def test_a_congested_sample_cuts_a_tenth_and_a_healthy_one_gives_a_slot_back():
    """CP-016, CP-018, CP-019: 180 ms three times, then 1500, with breachLimit 1: 9; then one healthy: 10."""
    assert caps(ema(breach_limit=1), 180, 180, 180, 1_500, 180) == [10, 10, 10, 9, 10]


def test_a_fast_first_sample_does_not_seed_the_average():
    """CP-015: 20 ms is headroom; 200 ms afterwards is no congestion."""
    control = ema(breach_limit=1)
    assert caps(control, 20, 200, 300) == [10, 10, 10]
    assert control.floor == pytest.approx(seconds(0.22))


def test_headroom_raises_an_initial_limit_step_by_step():
    """CP-015, CP-021, CP-024: initial 2 and three answers of 20 ms: 5."""
    assert caps(ema(initial_concurrency=2), 20, 20, 20) == [3, 4, 5]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_concurrency": 3}, [9, 8, 7, 6, 5, 4, 3, 3]),
        ({"min_concurrency": 5, "decrease_factor": 0.8}, [8, 6, 5, 5]),
    ],
)
def test_cuts_end_at_the_floor_and_take_at_least_one_slot(options, expected):
    """CP-019, CP-020: floor 3: 10, 9, 8 ... 3, 3; factor 0.8 and floor 5: 10, 8, 6, 5, 5."""
    control = ema(breach_limit=1, **options)
    caps(control, 150)
    assert caps(control, *[1_000] * len(expected)) == expected


def test_fewer_congested_samples_in_a_row_than_the_limit_of_breaches_cut_nothing():
    """CP-017, CP-023: one isolated slow sample does not cut; two in a row do."""
    assert caps(ema(), 150, 900, 150, 900, 150, 900, 900) == [10, 10, 10, 10, 10, 10, 9]


def test_the_average_moves_by_a_fifth_and_leaves_congestion_out():
    """CP-022: an exponential moving average, weight 0.2."""
    control = ema()
    caps(control, 100, 200, 10_000)
    assert control.floor == pytest.approx(seconds(0.12))


def test_a_step_never_leads_above_the_limit():
    """CP-018, CP-024: increaseStep 4 from 8 of 10."""
    assert caps(ema(initial_concurrency=8, increase_step=4), 20, 20) == [10, 10]


@pytest.mark.parametrize("ending", [each for each in Ending if each is not Ending.OK])
def test_what_is_no_answer_is_no_sample(ending):
    control = ema(initial_concurrency=4)
    assert caps(control, 20, 20, ending=ending) == [4, 4]
    assert control.limit == 4.0


def test_it_holds_nothing_back_in_time():
    control = ema(use_ttfb=False)
    control.tick(0)
    assert (control.until, control.rate, control.use_ttfb, control.refused) == (0, None, False, False)


def test_a_rare_fast_sample_does_not_become_the_baseline():
    """AD-01: 95 to 105 ms, 30 ms now and then: the limit stays where it started."""
    latencies = [30 if n % 100 == 0 else 95 + n % 11 for n in range(500)]
    assert set(caps(ema(), *latencies)) == {10}


def test_the_limit_is_back_at_its_maximum_after_a_bad_spell():
    """AD-03, CP-024: 50 slow samples, then 500 normal ones."""
    control = ema()
    caps(control, *[150] * 20)
    assert min(caps(control, *[1_000] * 50)) == 1
    assert caps(control, *[150] * 500)[-1] == 10
