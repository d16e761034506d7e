"""Part: what of its origin a delivery is for, so that a refusal which only one of them gets is not taken for the origin's."""

from __future__ import annotations

import re

from comity.client.address import parse

_NUMBERED = re.compile(r"[^/]*\d[^/]*")


def part_of(lane: str, origin: str, url: str) -> str:
    """Return the part that a delivery is for: its lane, or in the lane of its origin its path.

    In a path whatever holds a digit stands for an id: paths that differ there alone are one part.

    Raises:
        InvalidRequest: the URL cannot be sent.

    Example:
        >>> part_of("https://a.example", "https://a.example", "https://a.example/users/17/mail?page=2")
        'https://a.example /users/*/mail'
    """
    return lane if lane != origin else f"{lane} {_NUMBERED.sub('*', parse(url).path)}"
