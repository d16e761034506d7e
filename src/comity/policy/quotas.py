"""Quota: what a server announced about one of its limits, read from its headers. Malformed counts as absent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from comity.policy.dates import http_date, rfc3339
from comity.policy.header_names import Place
from comity.policy.structured import Item, items, unquoted, whole
from comity.policy.units import NS, decimal, span

LONGEST = 366 * 86_400 * NS
"""The longest wait that is believed, ns."""

_COUNT = re.compile(r"([0-9]{1,15})(?:\.[0-9]+)?(?:[ \t]*[,;].*)?")
_WINDOW = re.compile(r";[ \t]*w=([0-9]{1,9})(?![0-9])")


class Quota(NamedTuple):
    """One quota as a server announced it; what it did not say is None.

    Args:
        name: of the quota, or of the family of headers that told it.
        unit: what is counted: "requests", "tokens", ...
        limit: how much one window allows.
        remaining: how much is left of it; no promise.
        reset: ns from the answer's arrival until more is there.
        window: the window's length, ns.
    """

    name: str
    unit: str = "requests"
    limit: int | None = None
    remaining: int | None = None
    reset: int | None = None
    window: int | None = None


def families(fields: Mapping[str, str], places: Mapping[str, Place], present: Callable[[], int]) -> Iterator[Quota]:
    """Yield the quotas of one header per fact; `present` is asked for the server's time only where an instant is told."""
    found: dict[str, tuple[str, dict[str, int | None]]] = {}
    for name, text in fields.items():
        place = places.get(name)
        if place is None or place.role == "retry_after":
            continue
        family, unit, role = place
        facts = found.setdefault(family, (unit, {}))[1]
        if role == "reset":
            facts[role] = reset(text, present)
        elif role == "window":
            facts[role] = _length(text)
        else:
            facts[role] = _count(text)
            # An older draft adds the policy: `RateLimit-Limit: 100, 100;w=60`.
            if role == "limit" and ";" in text and (window := _WINDOW.search(text)):
                facts["window"] = _length(window[1])
    for family, (unit, facts) in found.items():
        limit, remaining, wait = facts.get("limit"), facts.get("remaining"), facts.get("reset")
        if limit is not None or remaining is not None or wait is not None:
            yield Quota(family, unit, limit, remaining, wait, facts.get("window"))


def structured(fields: Mapping[str, str]) -> Iterator[Quota]:
    """Yield the quotas of RateLimit and RateLimit-Policy, joined by name."""
    if "ratelimit" not in fields and "ratelimit-policy" not in fields:
        return
    policies = {quota.name: quota for quota in _policies(fields.get("ratelimit-policy", ""))}
    told = items(fields.get("ratelimit", ""))
    if any(item.value for item in told):
        states = list(_dictionary(told))
        # The older draft has no names: a single policy belongs to it.
        if len(policies) == 1:
            policies = {"ratelimit": policies.popitem()[1]}
    else:
        states = [state for item in told for state in _state(item)]
    for state in states:
        policy = policies.pop(state.name, state)
        limit = policy.limit if state.limit is None else state.limit
        yield Quota(state.name, policy.unit, limit, state.remaining, state.reset, policy.window)
    yield from policies.values()


def reset(text: str, present: Callable[[], int]) -> int | None:
    """Return the wait until a reset that is written as a delay or as an instant, ns."""
    plain = decimal(text)
    if plain is None:
        instant = rfc3339(text)
        instant = http_date(text, present()) if instant is None else instant
        if instant is None:
            return _length(text)
    elif plain <= LONGEST:
        return plain
    elif 10**9 * NS <= plain < 10**11 * NS:
        instant = plain
    elif 10**12 * NS <= plain < 10**14 * NS:
        instant = plain // 1_000
    else:
        return None
    wait = instant - present()
    return max(0, wait) if wait <= LONGEST else None


@lru_cache(maxsize=256)  # every answer of a server has the same policy
def _policies(text: str) -> tuple[Quota, ...]:
    return tuple(quota for item in items(text) for quota in _policy(item))


def _policy(item: Item) -> Iterator[Quota]:
    limit = whole(item.parameters.get("q", item.name))  # older drafts: `100;w=60`
    if limit is not None:
        unit = unquoted(item.parameters.get("qu", "requests"))
        yield Quota(item.name, unit, limit=limit, window=_length(item.parameters.get("w", "")))


def _state(item: Item) -> Iterator[Quota]:
    remaining = whole(item.parameters.get("r"))
    if remaining is not None:
        yield Quota(item.name, remaining=remaining, reset=_length(item.parameters.get("t", "")))


def _dictionary(told: Iterable[Item]) -> Iterator[Quota]:
    """Yield the quota of an older draft's `limit=100, remaining=50, reset=30`."""
    facts = {item.name: item.value for item in told}
    remaining = whole(facts.get("remaining"))
    if remaining is not None:
        wait = _length(facts.get("reset") or "")
        yield Quota("ratelimit", limit=whole(facts.get("limit")), remaining=remaining, reset=wait)


def _count(text: str) -> int | None:
    match = _COUNT.fullmatch(text)
    return int(match[1]) if match else None


def _length(text: str) -> int | None:
    """Return a length of time in seconds or with units, ns."""
    plain = decimal(text)
    wait = span(text.lower()) if plain is None else plain
    return wait if wait is not None and wait <= LONGEST else None
