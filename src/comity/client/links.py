"""Links: what a `Link` header says (RFC 8288 section 3), read as leniently as its appendix B.2 asks for.

A link with an anchor speaks of something else than the answer it came with, so it is left out. Of several `rel` in one
link the first counts; what cannot be read is skipped up to the next link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Every expression is entered where the one before ended and never gives a character back: the server chooses the text.
_BETWEEN = re.compile(r"[\s,]*+")
_TARGET = re.compile(r"<([^<>]*+)>")
_PARAM = re.compile(
    r"[ \t]*+;[ \t]*+(?:([!#$%&'*+\-.^_`|~0-9A-Za-z]++)[ \t]*+(?:=[ \t]*+(?:\"((?:[^\"\\]|\\.)*+)\"|([^;,\"]*+)))?)?",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Link:
    """One link.

    Args:
        target: the URI reference between the angle brackets, perhaps relative.
        relations: its relation types, in lower case.
    """

    target: str
    relations: frozenset[str]


def links(values: Iterable[str]) -> Iterator[Link]:
    """Yield the links of the `Link` fields of an answer.

    Example:
        >>> [link.target for link in links(['</a?x=1,2>; rel="prev", </b>; title="a, <b>"; rel="last next"'])]
        ['/a?x=1,2', '/b']
    """
    for value in values:
        position = 0
        while position < len(value):
            between = _BETWEEN.match(value, position)
            position = between.end() if between else position
            found = _TARGET.match(value, position)
            if found is None:
                position = _after_comma(value, position)
                continue
            position = found.end()
            params: dict[str, str] = {}
            while param := _PARAM.match(value, position):
                position = param.end()
                if param[1]:
                    text = (param[3] or "").strip() if param[2] is None else _ESCAPED.sub(r"\1", param[2])
                    params.setdefault(param[1].lower(), text)
            position = _after_comma(value, position)
            if "anchor" not in params:
                yield Link(found[1].strip(), frozenset(params.get("rel", "").lower().split()))


def target_of(values: Iterable[str], relation: str) -> str | None:
    """Return the target of the first link of a relation, None when there is none."""
    return next((link.target for link in links(values) if relation in link.relations), None)


def _after_comma(value: str, position: int) -> int:
    comma = value.find(",", position)
    return len(value) if comma < 0 else comma + 1
