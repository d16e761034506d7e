"""Rate: so many starts (or units of a named budget) in any window of a length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from comity.errors import OptionsError
from comity.policy.naming import check_choice, named_options, unusable
from comity.policy.units import NS, Seconds, flag, integer, parse_rate, required, seconds, unit_name

Kind = Literal["sliding", "fixed"]
Measured = Literal["client", "server"]

_ARRIVALS = 'requests per time such as "100/min" or "50/5s"'


@named_options
@dataclass(frozen=True, init=False)
class Rate:
    """A limit of `max` per `per`.

    Args:
        max: starts, or units of `unit`, in one window; at least 1. Or the whole rate as text, "50/5s", without `per`.
        per: the window's length: seconds, a timedelta or text ("5s"); at least 1 ms.
        kind: "sliding" (never more than `max` in ANY window) or "fixed" (windows one after another from the start of
            the limiter, so up to twice `max` may start around a boundary).
        spread: space the starts evenly, `per / max` apart.
        burst: refill a bucket of this size at the rate instead; at least 1. Unlike the windows a bucket lets
            `burst + max` start in one window.
        measured: "client" counts an entry from its first byte to `per` after it; "server" until `per` after its answer
            began, so that a server's own log shows no more than `max` however much the network jitters.
        unit: what is counted: "requests", or the name of a budget that requests give their cost in.

    Raises:
        OptionsError: a value cannot be used, or `burst` is given together with `spread` or kind="fixed".

    Example:
        >>> Rate("50/5s", measured="server") == Rate(50, "5s", measured="server")
        True
    """

    max: int
    per: float
    kind: Kind
    spread: bool
    burst: int | None
    measured: Measured
    unit: str
    per_ns: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        max: int | str,  # noqa: A002 - the option's public name
        per: Seconds | None = None,
        *,
        kind: Kind = "sliding",
        spread: bool = False,
        burst: int | None = None,
        measured: Measured = "client",
        unit: str = "requests",
    ) -> None:
        check_choice(kind, "kind", get_args(Kind))
        check_choice(measured, "measured", get_args(Measured))
        if isinstance(max, str):
            if per is not None or unit != "requests":
                raise unusable("max", max, "a whole number, 1 or more", reason="text says window and unit itself")
            max, per_ns, unit = parse_rate(max, "max")  # noqa: A001 - the option's public name
            per = per_ns / NS
        if per is None:
            raise unusable("per", per, 'a duration such as "5s"', reason="a rate is so many per so long")
        length = required(per, "per", minimum=0.001)
        vars(self).update(
            max=integer(max, "max", 1),
            per=length,
            kind=kind,
            spread=flag(spread, "spread"),
            burst=None if burst is None else integer(burst, "burst", 1),
            measured=measured,
            unit=unit_name(unit, "unit"),
            per_ns=seconds(length),
        )
        if burst is not None and (spread or kind == "fixed"):
            raise unusable("burst", burst, hint='leave out spread and kind="fixed"', reason="a bucket has no windows")

    @classmethod
    def of(cls, value: str | Rate, option: str = "rate", *, measured: Measured = "client") -> Rate:
        """Return a rate as it is, or read one from text such as "50/5s" or "90000 tokens/min", measured there.

        Raises:
            OptionsError: the text does not read so.
        """
        if isinstance(value, Rate):
            return value
        count, per_ns, unit = parse_rate(value, option)
        return cls(count, per_ns / NS, unit=unit, measured=measured)

    def __str__(self) -> str:
        """Return the rate as `Rate.of` reads it, seconds as the unit of time."""
        what = "" if self.unit == "requests" else f" {self.unit}"
        return f"{self.max}{what}/{self.per:.12g}s"


def arrivals(text: object, option: str = "rate") -> Rate:
    """Return a rate of requests from text such as "50/5s", measured where they arrive.

    It is for where nobody gives requests a cost: a rate of anything else would limit nothing there.

    Raises:
        OptionsError: the text does not read so, or counts something else.
    """
    try:
        count, per_ns, unit = parse_rate(text, option)
    except OptionsError as error:
        raise OptionsError(option, error.value, _ARRIVALS, error.hint) from None
    if unit != "requests":
        reason = f"it counts {unit}, of which nothing here says how many a request costs, so it would limit nothing"
        raise unusable(option, text, _ARRIVALS, reason=reason)
    return Rate(count, per_ns / NS, measured="server")
