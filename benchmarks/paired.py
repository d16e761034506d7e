"""Paired: two things compared in one run, so that what else the machine does falls on both.

Every competitor takes one sample per round, in turn (A B C A B C ...). A ratio is formed inside each round and the median
of the rounds' ratios is the figure. Its spread is half the 95 % confidence interval of that median, by the binomial
distribution of ranks, which asks nothing of how the samples are distributed. Rounds are added until the spread is small
enough or there are `most` of them; the figure then carries the spread that was reached.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

Sample = Callable[[], float]
"""Takes one sample and returns its cost (or its rate), in any unit that all competitors of a run share."""

ENOUGH = 0.05
"""The spread at which a figure is good enough, as a part of the median."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of some samples, and where it lies with 95 % confidence.

    Args:
        median: of the samples.
        low, high: the bounds of the interval; with fewer than six samples the least and the greatest.
        count: how many samples.
    """

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        """Return the figure of at least one value.

        Raises:
            ValueError: there are no values.
        """
        ordered = sorted(values)
        if not ordered:
            raise ValueError("a figure needs at least one sample")
        left = _outside(len(ordered))
        return cls(median(ordered), ordered[left], ordered[-1 - left], len(ordered))

    @property
    def spread(self) -> float:
        """Half the interval as a part of the median; 0 when the median is 0."""
        return (self.high - self.low) / 2 / abs(self.median) if self.median else 0.0


class Rounds:
    """What the rounds of one run brought.

    Args:
        samples: competitor -> one value per round.
    """

    def __init__(self, samples: Mapping[str, Sequence[float]]) -> None:
        self.samples = samples

    def figure(self, name: str) -> Figure:
        """Return a competitor's own figure."""
        return Figure.of(self.samples[name])

    def ratio(self, ours: str, peer: str) -> Figure:
        """Return the figure of `ours` divided by `peer`, formed round by round."""
        return Figure.of(a / b for a, b in zip(self.samples[ours], self.samples[peer], strict=True))


def interleave(
    competitors: Mapping[str, Sample],
    pairs: Sequence[tuple[str, str]],
    *,
    least: int = 7,
    most: int = 41,
    enough: float = ENOUGH,
    warm_up: int = 1,
) -> Rounds:
    """Run all competitors round by round until the ratios of `pairs` are known well enough.

    Args:
        competitors: name -> takes a sample.
        pairs: the ratios (ours, peer) whose spread decides when to stop.
        least: rounds that count at least.
        most: rounds that count at most.
        enough: the spread to reach, as a part of the median.
        warm_up: rounds whose samples are thrown away.
    """
    for _ in range(warm_up):
        for sample in competitors.values():
            sample()
    values: dict[str, list[float]] = {name: [] for name in competitors}
    rounds = Rounds(values)
    for number in range(1, most + 1):
        for name, sample in competitors.items():
            values[name].append(sample())
        if number >= least and all(rounds.ratio(*pair).spread <= enough for pair in pairs):
            break
    return rounds


def uncollected(sample: Sample) -> Sample:
    """Return `sample` with the garbage collector run before it and off during it."""

    def take() -> float:
        gc.collect()
        gc.disable()
        try:
            return sample()
        finally:
            gc.enable()

    return take


def _outside(count: int) -> int:
    """Return how many of `count` ordered samples lie outside the median's interval on each side."""
    tail, chance = 0, 2 * 0.5**count
    while chance <= 1 - 0.95 and tail < (count - 1) // 2:
        tail += 1
        chance += 2 * comb(count, tail) * 0.5**count
    return max(0, tail - 1)
