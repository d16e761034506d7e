"""Numbers at the edge: durations, rates and counts as people write them, whole nanoseconds inside.

This is the one place that checks a number. The grammar is ASCII and small on purpose: `1_000`, digits of other scripts,
booleans, signs, NaN and infinity are refused, because each of them once stood for something else than its writer meant.

    duration   seconds as a number, a timedelta, or text: "250ms", "60s", "5min", "1h30m", "off"
    rate       COUNT [UNIT] / [N] TIME: "100/min", "50/5s", "5000/h", "90000 tokens/min"
    size       bytes as a whole number, or text: "64 MB", "512k", "1GiB", "off"; a kB has 1024 bytes
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import TypeGuard

from comity.policy.naming import unusable

NS = 1_000_000_000
"""Nanoseconds in a second."""

FOREVER = 3_155_760_000.0
"""The longest duration, seconds (100 years): threads and event loops refuse waits not much longer."""

Seconds = float | timedelta | str
"""How a duration is given: seconds, a timedelta, or text such as "250ms"."""

Size = int | str
"""How a size is given: bytes, or text such as "64 MB"."""

_UNIT_NS = {
    **dict.fromkeys(("ns",), 1),
    **dict.fromkeys(("us", "µs", "μs"), 1_000),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), NS),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * NS),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600 * NS),
    **dict.fromkeys(("d", "day", "days"), 86_400 * NS),
}
_DECIMAL = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?")
_PART = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([a-zµμ]+) ?")
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_RATE = re.compile(r"([0-9]{1,15})(?: ?([a-z][a-z0-9_-]*))? ?/ ?(.+)")
_SIZE = re.compile(r"([0-9]{1,15}) ?([kmg]i?b?|b)?")
_UNIT_BYTES = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_OFF = frozenset({"off", "0", "none", "no", "false"})


def seconds(value: float) -> int:
    """Return seconds as whole nanoseconds, rounded half up."""
    whole = math.floor(value)
    return whole * NS + math.floor((value - whole) * NS + 0.5)


def whole_ms(ns: int) -> int:
    """Return nanoseconds as whole milliseconds, rounded up: who waits so long has waited long enough."""
    return -(-ns // 1_000_000)


def to_seconds(ns: int) -> float:
    """Return nanoseconds as seconds."""
    return ns / NS


def decimal(text: str, unit_ns: int = NS) -> int | None:
    """Return an unsigned ASCII decimal of `unit_ns` as nanoseconds, rounded up, or None when it is no such number."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    whole, fraction = match[1], match[2] or ""
    scale = int("1" + "0" * len(fraction))
    return -(-int(whole + fraction) * unit_ns // scale)


def span(text: str) -> int | None:
    """Return a length of time with units ("250ms", "6m0s", "1.5h") as nanoseconds, or None when it is none."""
    total, position = 0, 0
    while position < len(text):
        match = _PART.match(text, position)
        unit = _UNIT_NS.get(match[2]) if match else None
        if match is None or unit is None:
            return None
        total += decimal(match[1], unit) or 0
        position = match.end()
    return total if text else None


def duration(value: object, option: str, *, minimum: float = 0.0) -> float | None:
    """Check a duration.

    Args:
        value: seconds, a timedelta, text ("250ms", "60s", "5min", "2h", "1d"; a bare number means seconds), or None or
            "off" for none.
        option: the option's name, for the message.
        minimum: the smallest allowed value, seconds.

    Returns:
        Seconds, or None.

    Raises:
        OptionsError: it is none of these, is not finite, or lies outside `minimum` .. 100 years.

    Example:
        >>> duration("250ms", "min_gap")
        0.25
    """
    if value is None:
        return None
    found: float | None = None
    if isinstance(value, str):
        text = value.strip().lower()
        if text in {"off", "none"}:
            return None
        ns = decimal(text)
        ns = span(text) if ns is None else ns
        found = None if ns is None else ns / NS
    elif isinstance(value, timedelta):
        found = value.total_seconds()
    elif _is_number(value) and abs(value) <= FOREVER:
        found = float(value)
    if found is None or not minimum <= found <= FOREVER:
        least = f"of at least {minimum:g} s and " if minimum else "of "
        form = f'a duration {least}at most 100 years, such as 1.5 (seconds), "250ms", "60s" or "5min"'
        raise unusable(option, value, form)
    return found


def required(value: object, option: str, *, minimum: float = 0.0) -> float:
    """Check a duration that cannot be switched off; else as `duration`."""
    found = duration(value, option, minimum=minimum)
    if found is None:
        raise unusable(option, value, 'a duration such as 1.5 (seconds), "250ms" or "60s"; it cannot be off')
    return found


def as_ns(value: float | None) -> int | None:
    """Return checked seconds as nanoseconds; None stays None."""
    return None if value is None else seconds(value)


def parse_rate(text: object, option: str = "rate") -> tuple[int, int, str]:
    """Read a rate.

    Args:
        text: COUNT [UNIT] / [N] TIME.
        option: the option's name, for the message.

    Returns:
        The count, the window in nanoseconds, and the unit ("requests" when none is named).

    Raises:
        OptionsError: it does not read so, or the count or window is 0.

    Example:
        >>> parse_rate("90000 tokens/min")
        (90000, 60000000000, 'tokens')
    """
    match = _RATE.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if match is not None:
        count, unit, window = int(match[1]), match[2] or "requests", match[3]
        per = _UNIT_NS.get(window) or span(window)
        if count and per and per <= FOREVER * NS:
            return count, per, "requests" if unit == "request" else unit
    bare = re.fullmatch(r"([0-9]+) ?/ ?([0-9]+)", text.strip()) if isinstance(text, str) else None
    hint = f'did you mean "{bare[1]}/{bare[2]}s"?' if bare else ""
    raise unusable(option, text, 'a count per time such as "100/min", "50/5s" or "90000 tokens/min"', hint)


def size(value: object, option: str) -> int | None:
    """Check a size.

    Args:
        value: bytes as a whole number, text ("64 MB", "512k", "1GiB"; a bare number means bytes, a kB has 1024), or None or
            "off" for no bound.
        option: the option's name, for the message.

    Returns:
        Bytes, or None.

    Raises:
        OptionsError: it is none of these.

    Example:
        >>> size("64 MB", "max_body")
        67108864
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value.strip().lower()
        if text in {"off", "none"}:
            return None
        match = _SIZE.fullmatch(text)
        if match is not None:
            return int(match[1]) * _UNIT_BYTES[(match[2] or "")[:1]]
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise unusable(option, value, 'a size of 0 bytes or more such as 1000, "512k" or "16MB", or "off" for no bound')


def is_off(text: str) -> bool:
    """Return whether a text says that there is to be no limit: off, 0, none, no or false."""
    return text.strip().lower() in _OFF


def integer(value: object, option: str, minimum: int, maximum: int | None = None) -> int:
    """Check a whole number; booleans, floats and text are refused.

    Raises:
        OptionsError: it is not a whole number within `minimum` .. `maximum`.
    """
    top = math.inf if maximum is None else maximum
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= top:
        return value
    upper = f"up to {maximum}" if maximum is not None else "or more"
    raise unusable(option, value, f"a whole number, {minimum} {upper}")


def parse_integer(text: str, option: str, minimum: int, maximum: int | None = None) -> int:
    """Read a whole number from ASCII digits; else as `integer`."""
    digits = text.strip()
    known = digits.isascii() and digits.isdigit() and len(digits) <= 18
    return integer(int(digits) if known else text, option, minimum, maximum)


def number(value: object, option: str, minimum: float, maximum: float = FOREVER) -> float:
    """Check a finite real number; booleans and text are refused.

    Raises:
        OptionsError: it is not a number within `minimum` .. `maximum`.
    """
    if _is_number(value) and minimum <= value <= maximum:
        return float(value)
    raise unusable(option, value, f"a number from {minimum:g} to {maximum:g}")


def flag(value: object, option: str) -> bool:
    """Check a boolean.

    Raises:
        OptionsError: it is not True or False.
    """
    if isinstance(value, bool):
        return value
    raise unusable(option, value, "True or False")


def plain_function(value: object, option: str) -> None:
    """Refuse what is no function, or one that has to be awaited.

    Raises:
        OptionsError: it is none, or one that has to be awaited: its decision would never come.
    """
    called = getattr(type(value), "__call__", None)  # noqa: B004 - what is asked is whether the call has to be awaited
    if not callable(value) or iscoroutinefunction(value) or iscoroutinefunction(called):
        raise unusable(option, value, "a plain function (def, not async def)")


def unit_name(value: object, option: str) -> str:
    """Check the name of a budget: a letter, then letters, digits, "_" or "-", all lower case.

    Raises:
        OptionsError: it is no such name.
    """
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise unusable(option, value, 'a name such as "requests" or "tokens"')


def priority(value: object) -> int:
    """Check a priority: 0 (first) to 9 (last)."""
    return integer(value, "priority", 0, 9)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
