"""Floor: the latency without a queue. Latencies are plain numbers here; the noise is a variance."""

from __future__ import annotations

import pytest

from comity.policy.floor import Floor


def floor(mean: float = 100.0, samples: int = 20, *, idle: bool = True) -> Floor:
    found = Floor()
    if idle:
        found.measure(mean, samples, 100.0)
    else:
        found.begin(mean, samples)
    return found


def test_the_first_measurement_is_the_floor():
    first = Floor()
    assert first.measure(100.0, 8, 0.0) is False
    assert (first.mean, first.samples, first.idle) == (100.0, 8, True)


def test_a_measurement_that_agrees_sharpens_the_floor():
    known = floor()
    assert known.measure(103.0, 20, 100.0) is False
    assert 100.0 < known.mean < 103.0
    assert known.samples > 25


def test_a_measurement_that_contradicts_replaces_the_floor():
    known = floor()
    assert known.measure(120.0, 20, 100.0) is False
    assert (known.mean, known.samples) == (120.0, 20)


def test_a_floor_that_rose_by_a_third_is_a_slower_service():
    assert floor().measure(140.0, 20, 100.0) is True


@pytest.mark.parametrize(("mean", "rose"), [(104.0, False), (110.0, True)])
def test_the_first_idle_measurement_corrects_a_guess_sooner(mean, rose):
    assert floor(idle=False).measure(mean, 20, 0.0) is rose


def test_the_first_idle_measurement_replaces_a_guess_that_was_a_little_higher():
    known = floor(idle=False)
    known.measure(95.0, 20, 100.0)
    assert known.mean == 95.0


@pytest.mark.parametrize(("mean", "moves"), [(98.0, False), (93.0, True), (80.0, True), (130.0, False)])
def test_a_mean_that_may_include_queueing_counts_only_when_it_is_clearly_lower(mean, moves):
    known = floor()
    known.bound(mean, 20, 100.0)
    assert (known.mean < 100.0) is moves


def test_a_mean_that_is_far_lower_replaces_the_floor():
    known = floor()
    known.bound(80.0, 20, 100.0)
    assert known.mean == 80.0


@pytest.mark.parametrize(("samples", "moves"), [(20, True), (500, False)])
def test_a_load_that_hardly_queues_sharpens_only_a_vague_floor(samples, moves):
    known = Floor()
    known.begin(100.0, samples)
    known.sharpen(104.0, 20, 2_000.0)
    assert (known.mean != 100.0) is moves
