"""Floor: what an answer takes when nobody queues for it, as an estimate that knows how vague it is.

It is a mean of so many samples; what one sample scatters by (the noise, a variance) says how much that is worth. A
measurement that agrees with the estimate sharpens it; one that contradicts it replaces it, as the service itself has
changed. The floor wanders meanwhile, so old samples fade.
"""

from __future__ import annotations

import math

DOUBT = 2.5
"""Standard errors beyond which a measurement contradicts the estimate."""
LOWER = 2.0
"""Standard errors below the estimate at which even a mean that may include queueing contradicts it."""
WANDER = 0.02
"""How far the true floor drifts from one measurement to the next, as a share of it."""
VAGUE = 0.06
"""The standard error, as a share, down to which what may include a little queueing still sharpens the estimate."""
ROSE = 1.3
"""A floor that grew by this factor means a slower service, not a busier one."""
ROSE_FIRST = 1.05
"""The same for the first idle measurement, as what stood before was a guess."""


class Floor:
    """The latency without a queue.

    Attributes:
        mean: ns; 0 while unknown.
        samples: what it is worth.
        idle: whether it was ever measured idle.
    """

    __slots__ = ("idle", "mean", "samples")

    def __init__(self) -> None:
        self.mean = self.samples = 0.0
        self.idle = False

    def begin(self, mean: float, samples: int) -> None:
        """Take a first guess."""
        self.mean, self.samples = mean, samples

    def measure(self, mean: float, samples: int, noise: float) -> bool:
        """Take over an idle measurement; return whether the service turned out slower than thought."""
        before, first = self.mean, not self.idle
        self.idle = True
        if not before:
            self.begin(mean, samples)
            return False
        self._fade(noise)
        doubt = self._doubt(samples, noise)
        # A guess was made under a load of unknown size: it can only have been too high.
        if abs(mean - before) > DOUBT * doubt or (first and before - mean > doubt):
            self.begin(mean, samples)
        else:
            self._blend(mean, samples)
        return self.mean > (ROSE_FIRST if first else ROSE) * before

    def sharpen(self, mean: float, samples: int, noise: float) -> None:
        """Learn from a mean under a load that hardly queues, while the estimate is vague."""
        if noise > (VAGUE * self.mean) ** 2 * self.samples:
            self._blend(mean, samples)
        else:
            self.bound(mean, samples, noise)

    def bound(self, mean: float, samples: int, noise: float) -> None:
        """Learn from a mean that may include queueing: it is an upper bound, so only a clearly lower one counts."""
        doubt = self._doubt(samples, noise)
        if self.mean - mean > LOWER * doubt:
            self._fade(noise)
            if self.mean - mean > DOUBT * doubt:
                self.begin(mean, samples)
            else:
                self._blend(mean, samples)

    def _doubt(self, samples: int, noise: float) -> float:
        """Return the standard error of the difference between the estimate and a mean."""
        return math.sqrt(noise / self.samples + noise / samples)

    def _fade(self, noise: float) -> None:
        if noise:
            self.samples = noise / (noise / self.samples + (WANDER * self.mean) ** 2)

    def _blend(self, mean: float, samples: int) -> None:
        self.samples += samples
        self.mean += samples / self.samples * (mean - self.mean)
