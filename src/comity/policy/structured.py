"""Structured field lists (RFC 9651), as much of them as the RateLimit fields need: items with parameters.

"burst";q=100;w=60, "daily";q=5000;w=86400        a list of strings or tokens
limit=100, remaining=50, reset=30                 a dictionary (older drafts): items with a value of their own
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BARE = r'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"|:[0-9A-Za-z+/=]*:|\?[01]|[0-9A-Za-z!#$%&\'*+.^_`|~:/-]+'
_ITEM = re.compile(rf"({_BARE})(?:=({_BARE}))?")
_PARAMETER = re.compile(rf";[ ]*([a-z*][a-z0-9_.*-]*)(?:=({_BARE}))?")
_COMMA = re.compile(r"[ \t]*,[ \t]*")
_DIGITS = re.compile(r"[0-9]{1,15}")


class Item(NamedTuple):
    """One member of a list: its name, its own value (dictionaries only) and its parameters."""

    name: str
    value: str | None
    parameters: dict[str, str]


def items(text: str) -> list[Item]:
    """Return the members of a list or dictionary; none when the field is malformed anywhere."""
    found: list[Item] = []
    position, end = 0, len(text)
    while True:
        match = _ITEM.match(text, position)
        if match is None:
            return []
        position = match.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(text, position):
            parameters[parameter[1]] = parameter[2] or "?1"
            position = parameter.end()
        found.append(Item(unquoted(match[1]), match[2], parameters))
        if position == end:
            return found
        comma = _COMMA.match(text, position)
        if comma is None:
            return []
        position = comma.end()


def whole(text: str | None) -> int | None:
    """Return an unsigned integer of at most 15 digits, or None when it is none."""
    return int(text) if text is not None and _DIGITS.fullmatch(text) else None


def unquoted(text: str) -> str:
    """Return the text of a string or token."""
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
