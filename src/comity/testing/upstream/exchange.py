"""One request on its way through the upstream, and the parameters in its query."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import parse_qs, unquote

from comity.testing.upstream.wire import Head

_NS = {"s": 1_000_000_000, "ms": 1_000_000}
_NO_PARAMS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class BadParam(ValueError):
    """A parameter of the query that cannot be used."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"?{name}={value} cannot be used: {allowed}")


class Exchange:
    """One request as the paths see it.

    Args:
        head: its head.
        at: when it arrived, monotonic ns.

    Attributes:
        name: the first segment of its path, not decoded.
        rest: what follows in the path, not decoded.
        body: the bytes of its body that were kept; filled in before a path that wants them is asked.
    """

    __slots__ = ("at", "body", "head", "name", "params", "rest")

    def __init__(self, head: Head, at: int) -> None:
        self.head = head
        self.at = at
        self.body = b""
        path, _, query = _origin_form(head.target).partition("?")
        self.name, _, self.rest = path[1:].partition("/")
        self.params = Params(_parse(query) if query else _NO_PARAMS)

    @property
    def key(self) -> str:
        """The path after its first segment, percent-decoded."""
        return unquote(self.rest)


class Params:
    """The parameters of a query, each read as what it must be."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, tuple[str, ...]]) -> None:
        self._values = values

    def __bool__(self) -> bool:
        return bool(self._values)

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of `name`, in order."""
        return self._values.get(name, ())

    def get(self, name: str) -> str | None:
        """Return the last value of `name`, or None."""
        values = self._values.get(name)
        return values[-1] if values else None

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed words; the first is the default."""
        value = self.get(name)
        if value is None:
            return allowed[0]
        if value not in allowed:
            raise BadParam(name, value, "one of " + ", ".join(allowed))
        return value

    def whole(self, name: str, default: int, *, low: int = 0, high: int = 1_000_000_000) -> int:
        """Return a whole number between `low` and `high`."""
        return whole(name, self.get(name), default, low=low, high=high)

    def time(self, name: str, default: str, unit: str, *, zero: bool = True) -> int:
        """Return a time in ns from a decimal number of `unit` ("s" or "ms")."""
        value = self.get(name) or default
        ns = int(_decimal(name, value, f"a number of {unit}, for example {default}") * _NS[unit])
        if ns < 0 or (ns == 0 and not zero):
            raise BadParam(name, value, f"{'at least' if zero else 'more than'} 0 {unit}")
        return ns

    def rate(self, name: str, default: str) -> Fraction:
        """Return a number of events per second, exactly."""
        value = self.get(name) or default
        rate = Fraction(_decimal(name, value, f"a number per second, for example {default}"))
        if rate <= 0:
            raise BadParam(name, value, "more than 0 per second")
        return rate


def whole(name: str, value: str | None, default: int, *, low: int, high: int) -> int:
    """Read a whole number between `low` and `high`; `name` is for the message."""
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 20 and low <= int(value) <= high):
        raise BadParam(name, value, f"a whole number from {low} to {high}")
    return int(value)


def _decimal(name: str, value: str, allowed: str) -> Decimal:
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise BadParam(name, value, allowed) from None
    if not number.is_finite() or abs(number) > 1_000_000_000 or number.as_tuple().exponent < -30:  # type: ignore[operator]
        raise BadParam(name, value, allowed)
    return number


def _origin_form(target: str) -> str:
    # A client that takes this server for its proxy sends the absolute form (RFC 9112 3.2.2).
    scheme, found, rest = target.partition("://")
    if not found or "/" in scheme or "?" in scheme:
        return target
    return "/" + rest.partition("/")[2]


@lru_cache(maxsize=1024)
def _parse(query: str) -> Mapping[str, tuple[str, ...]]:
    parsed = parse_qs(query, keep_blank_values=True, max_num_fields=1000, encoding="utf-8", errors="replace")
    return MappingProxyType({name: tuple(values) for name, values in parsed.items()})
