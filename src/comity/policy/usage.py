"""Usage: what a request really cost, told by its answer.

A budget such as "90000 tokens/min" is charged with an estimate (`cost`) when a request starts, as what it takes is known
only afterwards. The answer's figure then corrects the entry at its original start; what was too much is free again at
once, and what was too little delays the next ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from comity.errors import OptionsError
from comity.policy.json_path import JsonPath
from comity.policy.naming import unusable
from comity.policy.units import plain_function, unit_name

UsageGiven = Mapping[str, str | Iterable[str]] | Callable[[Any], Mapping[str, int] | None]
"""Where an answer tells what it cost: by budget a place in its JSON body, or several whose sum it is; or a function of the
answer that returns the cost by budget, None when the answer does not tell."""

_FORM = 'a mapping such as {"tokens": "usage.total_tokens"} or a function of the answer'


class Answered(Protocol):
    """An answer, as far as it tells what it cost."""

    def field(self, path: JsonPath) -> object:
        """Return what stands there in the JSON body; MISSING when nothing does."""


class Usage:
    """What an answer says it cost.

    Args:
        given: see `UsageGiven`.

    Raises:
        OptionsError: it is neither, or a budget or place cannot be.

    Example:
        >>> Usage({"tokens": ["usage.input_tokens", "usage.output_tokens"]})
        Usage({'tokens': ['usage.input_tokens', 'usage.output_tokens']})
    """

    __slots__ = ("_function", "_places")

    def __init__(self, given: UsageGiven) -> None:
        self._function: Callable[[Any], Mapping[str, int] | None] | None = None
        self._places: dict[str, tuple[JsonPath, ...]] = {}
        if isinstance(given, Mapping) and given:
            for unit, places in given.items():
                self._places[unit_name(unit, "usage")] = _paths(places)
        elif callable(given):
            plain_function(given, "usage")
            self._function = given
        else:
            raise unusable("usage", given, _FORM)

    @classmethod
    def of(cls, given: Usage | UsageGiven | None) -> Usage | None:
        """Return a Usage as it is, None for None, and else the one of what is given."""
        return given if given is None or isinstance(given, Usage) else cls(given)

    def within(self, units: Collection[str]) -> Usage | None:
        """Return what concerns the budgets `units` alone; None when nothing does. A function is left as it is."""
        if self._function is not None:
            return self
        places = {unit: [place.text for place in paths] for unit, paths in self._places.items() if unit in units}
        return Usage(places) if places else None

    def check(self, units: Collection[str]) -> None:
        """Refuse a budget that no rate of any host counts.

        Raises:
            OptionsError: there is one.
        """
        for unit in self._places:
            if unit not in units:
                counted = " and ".join(sorted(units)) or "nothing"
                raise OptionsError("usage", unit, reason=f"no rate has that budget: the rates count {counted}")

    def actual(self, answer: Answered) -> Mapping[str, int] | None:
        """Return the cost by budget; None when the answer does not tell, and the estimate stands."""
        if self._function is not None:
            return self._function(answer)
        found: dict[str, int] = {}
        for unit, places in self._places.items():
            figures = [figure for place in places if (figure := _figure(answer.field(place))) is not None]
            if figures:
                found[unit] = sum(figures)
        return found or None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Usage) and (self._function, repr(self)) == (other._function, repr(other))

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        if self._function is not None:
            return f"Usage({self._function!r})"
        return f"Usage({ {unit: [place.text for place in places] for unit, places in self._places.items()} })"


def _paths(given: object) -> tuple[JsonPath, ...]:
    several = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
    if not several:
        raise unusable("usage", given, _FORM)
    return tuple(JsonPath(place, "usage") for place in several)


def _figure(value: object) -> int | None:
    """Return a figure of an answer, rounded up; None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return math.ceil(value)
