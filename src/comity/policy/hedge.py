"""Hedge: a request that is late is sent a second time, and the answer that is there first counts.

Theory. Of many requests to a healthy service a few are slow for reasons of their own: a busy replica, a lost packet. Sent
once more when they have taken longer than 95 of 100 usually do, most of these are quick, for some 5 % more load (Dean and
Barroso, The Tail at Scale, 2013). It must never add load where load is the trouble, so a hedge takes only a slot that is
free while nobody waits for one, and is paid from the host's retry budget. In a batch that is so at its end, when
everything waits for the last few answers.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from comity.errors import OptionsError
from comity.policy.naming import named_options, unusable
from comity.policy.units import Seconds, integer, required, seconds

REMEMBERED = 128
"""Latest latencies that tell what is usual."""

ENOUGH = 20
"""Latencies that have to be known before what is usual can be told."""

_FORM = '"p95", any of "p50" to "p99.9", or a duration of at least 1 ms such as 0.3 or "300ms"'
_QUANTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,3})?)")


@named_options
@dataclass(frozen=True, init=False)
class Hedge:
    """When an idempotent request that has no answer yet is sent once more beside itself.

    Args:
        after: "p95", the time that 95 of 100 latest requests to the host took (any "p50" to "p99.9"); or seconds, a
            timedelta or text ("300ms").
        max: how many more sends one attempt may have, each after another such time; at least 1. When none is possible then,
            as slots, rates or the budget are used up or somebody waits for his turn, it is tried again, ever more rarely.

    Raises:
        OptionsError: a value cannot be used.

    Example:
        >>> Hedge(after="300ms").after
        0.3
    """

    after: str | float
    max: int
    after_ns: int | None = field(init=False, repr=False, compare=False)
    quantile: float | None = field(init=False, repr=False, compare=False)

    def __init__(self, *, after: Seconds = "p95", max: int = 1) -> None:  # noqa: A002 - the option's name
        found = _QUANTILE.fullmatch(after) if isinstance(after, str) else None
        share = None if found is None else float(found[1]) / 100
        if share is not None and share < 0.5:
            raise unusable("hedge.after", after, _FORM)
        wait = _wait(after) if found is None else None
        vars(self).update(
            after=after if isinstance(after, str) and found else wait,
            max=integer(max, "hedge.max", 1, 10),
            after_ns=None if wait is None else seconds(wait),
            quantile=share,
        )

    @classmethod
    def of(cls, value: Hedge | Seconds | None) -> Hedge | None:
        """Return a Hedge as it is, None for None, and else the one after that time.

        Raises:
            OptionsError: it is no such time.

        Example:
            >>> Hedge.of("p95") == Hedge()
            True
        """
        return value if value is None or isinstance(value, cls) else cls(after=value)  # type: ignore[arg-type]


def _wait(after: object) -> float:
    try:
        return required(after, "hedge.after", minimum=0.001)
    except OptionsError:
        raise unusable("hedge.after", after, _FORM) from None


class Latencies:
    """The latest latencies of a host.

    Args:
        hedge: what they are kept for.
    """

    __slots__ = ("_hedge", "_latest")

    def __init__(self, hedge: Hedge) -> None:
        self._hedge = hedge
        self._latest: deque[int] = deque(maxlen=REMEMBERED)

    def add(self, latency: int) -> None:
        """Note how long an attempt took that was answered, ns."""
        self._latest.append(latency)

    @property
    def late(self) -> int | None:
        """The time after which an attempt is late, ns; None while that cannot be told."""
        share = self._hedge.quantile
        if share is None:
            return self._hedge.after_ns
        if len(self._latest) < ENOUGH:
            return None
        ordered = sorted(self._latest)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
