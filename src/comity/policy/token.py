"""Token: the characters that the names of methods and headers are made of."""

from __future__ import annotations

import re
from typing import TypeGuard

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def is_token(value: object) -> TypeGuard[str]:
    """Tell whether a value is a token of RFC 9110 section 5.6.2.

    Example:
        >>> is_token("X-Rate_Limit"), is_token("X Rate"), is_token(b"X")
        (True, False, False)
    """
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None
