"""HeaderNames: which header says what about quotas; the usual names, and an API's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from comity.policy.naming import named_options, unusable
from comity.policy.token import is_token
from comity.policy.units import unit_name


class Place(NamedTuple):
    """What one header says: `role` (limit, remaining, reset, window or retry_after) of the quota called `family`."""

    family: str
    unit: str
    role: str


def _places() -> Iterator[tuple[str, Place]]:
    roles = ("limit", "remaining", "reset")
    for family in ("ratelimit", "x-ratelimit", "x-rate-limit"):
        for role in roles:
            yield f"{family}-{role}", Place(family, "requests", role)
    yield "x-rate-limit-interval", Place("x-rate-limit", "requests", "window")
    for unit in ("requests", "tokens"):
        for role in roles:
            yield f"x-ratelimit-{role}-{unit}", Place(f"x-ratelimit-{unit}", unit, role)
    for unit in ("requests", "tokens", "input-tokens", "output-tokens"):
        for role in roles:
            yield f"anthropic-ratelimit-{unit}-{role}", Place(f"anthropic-ratelimit-{unit}", unit, role)


CONTEXT = frozenset({"date", "age"})
"""What helps to read the others and says nothing by itself."""

_PLACES: Mapping[str, Place] = dict(_places())
_KNOWN = frozenset({"retry-after", "retry-after-ms", "ratelimit", "ratelimit-policy", *_PLACES, *CONTEXT})


@named_options
@dataclass(frozen=True, init=False)
class HeaderNames:
    """An API's own names for what `read_hints` looks for, besides the usual ones; None where it has none.

    Args:
        retry_after: a wait: seconds, "20ms", or an instant.
        limit, remaining: counts.
        reset: as other resets: a delay, "6m0s", or an instant.
        window: a length of time, seconds or "1s".
        unit: what is counted.

    Raises:
        OptionsError: a name is no header name.

    Example:
        >>> HeaderNames(remaining="X-Calls-Left", reset="X-Calls-Reset").remaining
        'x-calls-left'
    """

    retry_after: str | None
    limit: str | None
    remaining: str | None
    reset: str | None
    window: str | None
    unit: str
    known: frozenset[str] = field(init=False, repr=False, compare=False)
    places: Mapping[str, Place] = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        *,
        retry_after: str | None = None,
        limit: str | None = None,
        remaining: str | None = None,
        reset: str | None = None,
        window: str | None = None,
        unit: str = "requests",
    ) -> None:
        given = {"retry_after": retry_after, "limit": limit, "remaining": remaining, "reset": reset, "window": window}
        names = {role: _header_name(name, f"header_names.{role}") for role, name in given.items()}
        kind = unit_name(unit, "header_names.unit")
        places = {name: Place("custom", kind, role) for role, name in names.items() if name is not None}
        vars(self).update(names, unit=kind, known=_KNOWN | places.keys(), places={**_PLACES, **places})


def _header_name(value: object, option: str) -> str | None:
    if value is None:
        return None
    if is_token(value):
        return value.lower()
    raise unusable(option, value, "the name of a header")


USUAL = HeaderNames()
