"""Pairs: what a caller gives under names, as a mapping or as pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from comity.errors import InvalidRequest
from comity.policy.naming import type_of


def pairs_of(given: object, what: str) -> list[tuple[Any, Any]]:
    """Return the names and values that are given, in order.

    Args:
        given: a mapping, or pairs.
        what: what they are, for the message; values stay out of it.

    Raises:
        InvalidRequest: it is neither.

    Example:
        >>> pairs_of({"page": 2}, "params")
        [('page', 2)]
    """
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidRequest(f"{what} is {type_of(given)}; a mapping or pairs of name and value are needed")
    pairs = list(given)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            size = f" of {len(pair)}" if isinstance(pair, (tuple, list)) else ""
            raise InvalidRequest(f"{what} holds {type_of(pair)}{size}; pairs of name and value are needed")
    return [(name, value) for name, value in pairs]
