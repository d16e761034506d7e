"""Adaptive: the options of adaptive control."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from comity.errors import OptionsError
from comity.policy.naming import check_choice, named_options
from comity.policy.units import Seconds, as_ns, flag, integer, number, required

Algorithm = Literal["auto", "ema"]

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

_EMA: dict[str, Any] = {
    "use_ttfb": True,
    "ignore_below": 0.1,
    "congestion_ratio": 2.0,
    "breach_limit": 2,
    "increase_step": 1,
    "decrease_factor": 0.9,
}
"""The options that "ema" alone has, and their defaults."""


@named_options
@dataclass(frozen=True, init=False)
class Adaptive:
    """How a host's concurrency, and with "auto" its rate, follow what answers tell.

    Args:
        algorithm: "auto" learns concurrency from latency, the rate from 429s, and rests while the host is down; "ema"
            compares each latency with the running average.
        min_concurrency: the limit never falls below; at least 1.
        initial_concurrency: where the limit starts, from `min_concurrency` to the host's `concurrency`. By default 2 with
            "auto", which finds its way up; `concurrency` with "ema".
        use_ttfb: ("ema" alone, as all that follow) sample the time to the first byte; False samples the whole answer.
            True by default.
        ignore_below: a faster sample is headroom, and no part of the average; seconds or text, 0.1 by default.
        congestion_ratio: a sample over so many averages counts as congestion; more than 1, 2 by default.
        breach_limit: so many of these in a row cut the limit; at least 1, 2 by default.
        increase_step: slots that a good sample adds; at least 1, the default.
        decrease_factor: what a cut leaves of the limit, between 0 and 1, 0.9 by default; it takes at least one slot.

    Raises:
        OptionsError: a value cannot be used, or an option of "ema" is given with "auto".

    Example:
        >>> Adaptive(algorithm="ema", decrease_factor=0.8).breach_limit
        2
    """

    algorithm: Algorithm
    min_concurrency: int
    initial_concurrency: int | None
    use_ttfb: bool | None
    ignore_below: float | None
    congestion_ratio: float | None
    breach_limit: int | None
    increase_step: int | None
    decrease_factor: float | None
    ignore_below_ns: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        *,
        algorithm: Algorithm = "auto",
        min_concurrency: int = 1,
        initial_concurrency: int | None = None,
        use_ttfb: bool | None = None,
        ignore_below: Seconds | None = None,
        congestion_ratio: float | None = None,
        breach_limit: int | None = None,
        increase_step: int | None = None,
        decrease_factor: float | None = None,
    ) -> None:
        check_choice(algorithm, "adaptive.algorithm", ALGORITHMS)
        own: dict[str, Any] = {
            "use_ttfb": use_ttfb,
            "ignore_below": ignore_below,
            "congestion_ratio": congestion_ratio,
            "breach_limit": breach_limit,
            "increase_step": increase_step,
            "decrease_factor": decrease_factor,
        }
        given = {name: value for name, value in own.items() if value is not None}
        if algorithm == "auto" and given:
            name, value = next(iter(given.items()))
            raise OptionsError(
                f"adaptive.{name}", value, reason='adaptive.algorithm="auto" has no such option, "ema" has'
            )
        if algorithm == "ema":
            own = _checked(_EMA | given)
        vars(self).update(
            algorithm=algorithm,
            min_concurrency=integer(min_concurrency, "adaptive.min_concurrency", 1),
            initial_concurrency=None
            if initial_concurrency is None
            else integer(initial_concurrency, "adaptive.initial_concurrency", 1),
            ignore_below_ns=as_ns(own["ignore_below"]) or 0,
            **own,
        )

    @classmethod
    def of(cls, value: Adaptive | bool | Algorithm | None) -> Adaptive | None:
        """Return an Adaptive as it is; True or a name is that algorithm with its defaults; None and False are none.

        Raises:
            OptionsError: it is none of these.

        Example:
            >>> Adaptive.of(True) == Adaptive()
            True
        """
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            check_choice(value, "adaptive", ALGORITHMS)
            return cls(algorithm=value)
        raise OptionsError("adaptive", value, 'True, "auto", "ema", an Adaptive(...) or None')

    def check(self, concurrency: int | None) -> None:
        """Check the options against the host's limit.

        Raises:
            OptionsError: one is above it, the initial limit is below the least, or "ema" has no limit to start from.
        """
        least, initial = self.min_concurrency, self.initial_concurrency
        if concurrency is not None and least > concurrency:
            raise OptionsError(
                "adaptive.min_concurrency", least, f"1 to concurrency={concurrency}", reason="it is above the limit"
            )
        if initial is not None and (initial < least or (concurrency is not None and initial > concurrency)):
            most = "or more" if concurrency is None else f"to concurrency={concurrency}"
            raise OptionsError("adaptive.initial_concurrency", initial, f"min_concurrency={least} {most}")
        if concurrency is None and self.algorithm == "ema":
            raise OptionsError("concurrency", concurrency, 'a number, with adaptive.algorithm="ema"')


def _checked(own: dict[str, Any]) -> dict[str, Any]:
    factor = number(own["decrease_factor"], "adaptive.decrease_factor", 0, 1)
    if not 0 < factor < 1:
        raise OptionsError("adaptive.decrease_factor", factor, "a number between 0 and 1, and neither of them")
    ratio = number(own["congestion_ratio"], "adaptive.congestion_ratio", 1)
    if ratio <= 1:
        raise OptionsError("adaptive.congestion_ratio", ratio, "a number above 1")
    return {
        "use_ttfb": flag(own["use_ttfb"], "adaptive.use_ttfb"),
        "ignore_below": required(own["ignore_below"], "adaptive.ignore_below"),
        "congestion_ratio": ratio,
        "breach_limit": integer(own["breach_limit"], "adaptive.breach_limit", 1),
        "increase_step": integer(own["increase_step"], "adaptive.increase_step", 1),
        "decrease_factor": factor,
    }
