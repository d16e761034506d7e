"""Backoff: how long to wait before a retry when the server named no time.

Every schedule is one value. `index` is 0 for the first retry and `draw` is uniform in [0, 1):

    grown  = base * factor ** (index + shift)          or  steps[index], the last one for ever after
    wait   = min(cap, grown) * (a + (b - a) * draw)    jitter=(a, b) after the cap (the default), or
             min(cap, grown * (a + (b - a) * draw))    before it
    and never below 0 or over the cap; `first` replaces the wait of index 0 and has no jitter.

Each wait is computed in constant time and cannot overflow, so an outage of any length keeps its pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from comity.policy.naming import named_options, unusable
from comity.policy.units import FOREVER, Seconds, duration, flag, integer, number, required, seconds


@named_options
@dataclass(frozen=True, init=False)
class Backoff:
    """A schedule of waits. Durations are seconds, timedelta or text ("250ms").

    Args:
        base: the wait that grows; 0 means no wait.
        factor: the growth per retry, 1 to 1000.
        cap: the ceiling of every wait; None is no ceiling (100 years).
        jitter: the range (a, b) of the random factor, a <= b; (0.5, 1) is "equal jitter", (0, 1) full jitter; None for
            none. Jitter is on by default so that callers who failed together do not come back together.
        steps: explicit waits in place of base and factor; the last one repeats.
        first: the wait of the first retry, exactly.
        shift: added to the index: 1 makes the first wait base * factor.
        jitter_after_cap: True spreads waits at the cap too; False lets the cap cut what jitter added.

    Raises:
        OptionsError: a value cannot be used.

    Example:
        >>> [Backoff(base=1, cap=5, jitter=None).wait(index, 0.0) // 10**9 for index in (0, 1, 2, 3, 10**6)]
        [1, 2, 4, 5, 5]
    """

    base: float
    factor: float
    cap: float | None
    jitter: tuple[float, float] | None
    steps: tuple[float, ...] | None
    first: float | None
    shift: int
    jitter_after_cap: bool
    _cap_ns: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        *,
        base: Seconds = 1.0,
        factor: float = 2.0,
        cap: Seconds | None = 60.0,
        jitter: tuple[float, float] | None = (0.5, 1.0),
        steps: Sequence[Seconds] | None = None,
        first: Seconds | None = None,
        shift: int = 0,
        jitter_after_cap: bool = True,
    ) -> None:
        ceiling = duration(cap, "backoff.cap")
        vars(self).update(
            base=required(base, "backoff.base"),
            factor=number(factor, "backoff.factor", 1, 1000),
            cap=ceiling,
            jitter=_jitter(jitter),
            steps=_steps(steps),
            first=duration(first, "backoff.first"),
            shift=integer(shift, "backoff.shift", 0, 1000),
            jitter_after_cap=flag(jitter_after_cap, "backoff.jitter_after_cap"),
            _cap_ns=seconds(FOREVER if ceiling is None else ceiling),
        )

    def wait(self, index: int, draw: float) -> int:
        """Return the wait before a retry.

        Args:
            index: 0 for the first retry.
            draw: uniform in [0, 1).

        Returns:
            Nanoseconds, 0 to the cap.
        """
        if index == 0 and self.first is not None:
            return min(seconds(self.first), self._cap_ns)
        ceiling = FOREVER if self.cap is None else self.cap
        wait = min(self._grown(index), FOREVER)
        if self.jitter_after_cap:
            wait = min(wait, ceiling)
        if self.jitter is not None:
            low, high = self.jitter
            wait *= low + (high - low) * draw
        return max(0, min(seconds(wait), self._cap_ns))

    def _grown(self, index: int) -> float:
        if self.steps is not None:
            return self.steps[min(index, len(self.steps) - 1)]
        try:
            return self.base * self.factor ** (index + self.shift)
        except OverflowError:
            return FOREVER if self.base else 0.0


def _jitter(value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    if isinstance(value, (tuple, list)) and len(value) == 2:
        low, high = (number(part, "backoff.jitter", -1000, 1000) for part in value)
        if low <= high:
            return low, high
    raise unusable("backoff.jitter", value, "a range (a, b) with a <= b such as (0.5, 1), or None")


def _steps(value: object) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or not value:
        raise unusable("backoff.steps", value, "at least one duration, such as (1, 3, 10)")
    return tuple(required(step, "backoff.steps") for step in value)
