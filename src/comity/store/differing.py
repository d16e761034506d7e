"""Differing: what a struct says beyond its defaults, which is what the digest of a submission is made of."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

import msgspec


def differing(of: msgspec.Struct, besides: Container[str] = ()) -> dict[str, object]:
    """Return the fields that differ from their defaults, and those named `besides`, by the names they are encoded with, in order.

    msgspec's own `omit_defaults` asks whether a value *is* the default, which equal bytes and large numbers need not be.

    Example:
        >>> class Terms(msgspec.Struct):
        ...     body: bytes = b"{}"
        ...     wait: int = 1000
        >>> differing(Terms(bytes(bytearray(b"{}")), int("1000"))), differing(Terms(), {"wait"})
        ({}, {'wait': 1000})
    """
    return {
        name: value
        for field, name, default in _fields(type(of))
        if (value := getattr(of, field)) != default or field in besides
    }


@lru_cache(maxsize=64)
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, object], ...]:
    return tuple((each.name, each.encode_name, each.default) for each in msgspec.structs.fields(kind))
