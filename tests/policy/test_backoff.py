"""Backoff: every schedule is one value, exact to the nanosecond. Pure: the draw comes in."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from comity.errors import OptionsError
from comity.policy.backoff import Backoff
from comity.policy.units import FOREVER, NS

MS = 1_000_000
LAST = 1 - 2**-53  # the largest draw below 1


def waits(backoff, count, draw=0.0):
    return [backoff.wait(index, draw) for index in range(count)]


def in_ms(backoff, count, draw=0.0):
    return [wait / MS for wait in waits(backoff, count, draw)]


def pool(delay, factor):
    """The request pool's schedule: delay * factor ** k, no jitter, no ceiling."""
    return Backoff(base=delay, factor=factor, jitter=None, cap=None)


def proxy(backoff_ms):
    """The durable proxy's: backoffMs * 2 ** n from n = 1, jitter 0.8 to 1.2."""
    return Backoff(base=backoff_ms / 1_000, shift=1, cap=None, jitter=(0.8, 1.2))


def etiquette(minimum, maximum, *, jitter=True, first=None):
    """The etiquette client's: min(max, 2 ** i * min * U[1, 2)), optionally 1 ms first."""
    return Backoff(base=minimum, cap=maximum, jitter=(1, 2) if jitter else None, first=first, jitter_after_cap=False)


@pytest.mark.parametrize(
    ("delay", "factor", "expected"),
    [(1, 2, [1, 2]), (2, 2, [2, 4, 8, 16]), (1, 3, [1, 3, 9, 27]), (0.5, 1, [0.5, 0.5, 0.5]), (0, 2, [0, 0, 0])],
)
def test_the_request_pools_waits(delay, factor, expected):
    """CP-026 CP-027 CP-028 CP-029: delay x factor^k; 2 s and 5 attempts wait 2, 4, 8, 16 s, 1 s and 3 attempts 1, 2 s."""
    for draw in (0.0, 0.5, LAST):
        assert waits(pool(delay, factor), len(expected), draw) == [round(wait * NS) for wait in expected]


def test_growth_ends_at_the_ceiling():
    """The facts' table: delay 60 ms, factor 10, cap 90 ms waits 60, 90, 90 ms."""
    assert in_ms(Backoff(base=0.06, factor=10, cap=0.09, jitter=None), 3) == [60, 90, 90]


@pytest.mark.parametrize(
    ("draw", "expected"), [(0.0, [800, 2_400, 8_000, 8_000]), (0.5, [1_000, 3_000, 10_000, 10_000])]
)
def test_the_paced_fetchs_waits(draw, expected):
    """PF-014: 1 s, 3 s, 10 s with jitter, U[0.8, 1.2]."""
    assert in_ms(Backoff(steps=(1, 3, 10), jitter=(0.8, 1.2)), 4, draw) == pytest.approx(expected, abs=1e-6)
    assert in_ms(Backoff(steps=(1, 3, 10), jitter=(0.8, 1.2)), 3, LAST) == pytest.approx(
        [1_200, 3_600, 12_000], abs=1e-6
    )


@pytest.mark.parametrize(
    ("attempt", "base", "low", "high"),
    [(1, 1_000, 800, 1_200), (2, 2_000, 1_600, 2_400), (3, 4_000, 3_200, 4_800), (4, 8_000, 6_400, 9_600)],
)
def test_the_durable_proxys_table(attempt, base, low, high):
    """NP-018 NP-019 NP-020 NP-021 NP-022 NP-023: backoffMs x 2^attempt x U[0.8, 1.2], the table for backoffMs 500."""
    waits_at = [proxy(500).wait(attempt - 1, draw) / MS for draw in (0.0, 0.5, LAST)]
    assert waits_at == pytest.approx([low, base, high], abs=1e-6)


def test_the_etiquette_clients_default_waits():
    """HT-030 HT-031 HT-033 HT-034 HT-035: its options are one value: 100 ms doubling, times U[1, 2), at most 1000 ms."""
    default = etiquette(0.1, 1)
    assert in_ms(default, 6, 0.0) == [100, 200, 400, 800, 1_000, 1_000]
    assert in_ms(default, 5, 0.5) == [150, 300, 600, 1_000, 1_000]
    assert in_ms(default, 3, LAST) == pytest.approx([200, 400, 800], abs=1e-6)


def test_a_fast_first_retry_waits_one_millisecond_and_the_second_doubles():
    """HT-036 HT-037: min 50, max 2000, fast first: 1; 100-200, 200-400, 400-800, 800-1600, 1600-2000 ms."""
    fast = etiquette(0.05, 2, first=0.001)
    assert in_ms(fast, 6, 0.0) == [1, 100, 200, 400, 800, 1_600]
    assert in_ms(fast, 6, LAST) == pytest.approx([1, 200, 400, 800, 1_600, 2_000], abs=1e-6)


def test_the_etiquette_clients_project_test():
    """HT-038: limit 7, min 50, max 3000, no jitter, fast first: 1, 100, 200, 400, 800, 1600, 3000 ms."""
    assert in_ms(etiquette(0.05, 3, jitter=False, first=0.001), 7, 0.7) == [1, 100, 200, 400, 800, 1_600, 3_000]


def test_full_jitter_without_a_ceiling():
    """HT-039: random x 2^i x 100 ms."""
    full = Backoff(base=0.1, jitter=(0, 1), cap=None)
    assert in_ms(full, 4, 0.0) == [0, 0, 0, 0]
    assert in_ms(full, 4, 0.25) == [25, 50, 100, 200]


def test_the_leisurely_example():
    """HT-040: min 1000, max 10000, no jitter: 1, 2, 4, 8, 10 s."""
    assert in_ms(etiquette(1, 10, jitter=False), 5) == [1_000, 2_000, 4_000, 8_000, 10_000]


def test_the_default_is_equal_jitter_on_1_2_4_up_to_60_seconds():
    assert in_ms(Backoff(), 8, 0.0) == [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert in_ms(Backoff(), 8, LAST) == pytest.approx(
        [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000], abs=1e-6
    )


@pytest.mark.parametrize(
    ("index", "wait"), [(0, 1), (9, 5), (1_023, 5), (1_024, 5), (4_999, 5), (10**6, 5), (10**400, 5)]
)
def test_an_outage_of_any_length_keeps_the_ceiling(index, wait):
    """BJ-01: attempts 1, 10, 1024, 1025, 5000, 10**6 with base 1 s and cap 5 s wait 1, 5, 5, 5, 5, 5 s."""
    assert Backoff(base=1, cap=5, jitter=None).wait(index, 0.0) == wait * NS


def test_without_a_ceiling_growth_ends_at_the_longest_duration():
    """BJ-01: no overflow either where nothing bounds the growth."""
    assert Backoff(cap=None, jitter=(1, 2)).wait(10**6, LAST) == FOREVER * NS
    assert Backoff(base=0, cap=None).wait(10**6, 0.5) == 0


def test_a_jitter_larger_than_the_wait_never_goes_below_zero():
    """BJ-03: 0.1 s with a jitter of +-0.5 s, 10 000 seeded samples."""
    wide = Backoff(base=0.1, factor=1, jitter=(-4, 6))
    chance = random.Random(7)
    samples = [wide.wait(0, chance.random()) for _ in range(10_000)]
    assert min(samples) == 0
    assert max(samples) <= 0.6 * NS


def test_callers_who_failed_together_come_back_apart():
    """BJ-05: 40 calls fail at one moment; the default spreads them over 0.5 s, at most 15 in any 50 ms."""
    chance = random.Random(40)
    times = sorted(Backoff().wait(0, chance.random()) for _ in range(40))
    assert times[-1] - times[0] >= 0.3 * NS
    assert max(sum(start <= time < start + NS // 20 for time in times) for start in times) <= 15


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"base": -1}, "base"), ({"base": None}, "base"), ({"factor": 0.5}, "factor"), ({"factor": float("nan")}, "factor"),
        ({"cap": "long"}, "cap"), ({"jitter": (2, 1)}, "jitter"), ({"jitter": 0.5}, "jitter"), ({"jitter": (1,)}, "jitter"),
        ({"jitter": (0, "1")}, "jitter"), ({"jitter": (0, float("inf"))}, "jitter"), ({"steps": ()}, "steps"), ({"steps": "1"}, "steps"),
        ({"steps": (1, None)}, "steps"), ({"first": -1}, "first"), ({"shift": -1}, "shift"), ({"shift": 0.5}, "shift"),
        ({"jitter_after_cap": 1}, "jitter_after_cap"), ({"facter": 2}, "did you mean factor"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(options, named):
    with pytest.raises(OptionsError, match=named):
        Backoff(**options)


@given(
    base=st.floats(0, 1e6),
    factor=st.floats(1, 1000),
    cap=st.none() | st.floats(0, 1e6),
    jitter=st.none() | st.tuples(st.floats(-9, 9), st.floats(-9, 9)).map(sorted),
    steps=st.none() | st.lists(st.floats(0, 1e6), min_size=1, max_size=5),
    first=st.none() | st.floats(0, 10),
    after=st.booleans(),
    index=st.integers(0, 10**9),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_no_wait_is_negative_or_over_the_ceiling(base, factor, cap, jitter, steps, first, after, index, draw):
    backoff = Backoff(
        base=base, factor=factor, cap=cap, jitter=jitter, steps=steps, first=first, jitter_after_cap=after
    )  # fmt: skip
    wait = backoff.wait(index, draw)
    assert 0 <= wait <= (FOREVER if cap is None else cap) * NS + 1
    assert wait == backoff.wait(index, draw)


@pytest.mark.parametrize("steps", [1, "1, 3", b"13", (), {1, 3}])
def test_steps_that_are_no_sequence_of_durations_are_refused(steps):
    with pytest.raises(OptionsError, match=r"backoff\.steps"):
        Backoff(steps=steps)
