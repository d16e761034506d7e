"""Instants as servers write them, read into nanoseconds since the epoch, and written. Nothing here knows the present time.

HTTP dates (RFC 9110, 5.6.7)   Sun, 06 Nov 1994 08:49:37 GMT | Sunday, 06-Nov-94 08:49:37 GMT | Sun Nov  6 08:49:37 1994
RFC 3339                       2026-11-30T08:49:37Z | 2026-11-30T08:49:37.25+01:00
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import lru_cache

from comity.policy.units import NS

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_EPOCH = date(1970, 1, 1).toordinal()
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FIXDATE = re.compile(
    rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) (?P<month>[a-z]{{3}}) (?P<year>[0-9]{{4}}) {_TIME} (?:gmt|utc)"
)
_RFC850 = re.compile(
    rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-(?P<month>[a-z]{{3}})-(?P<year>[0-9]{{2}}) {_TIME} (?:gmt|utc)"
)
_ASCTIME = re.compile(rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})")
_RFC3339 = re.compile(
    rf"(?P<year>[0-9]{{4}})-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})[t ]{_TIME}(?:\.(?P<fraction>[0-9]{{1,18}}))?"
    r"(?:z|(?P<sign>[+-])(?P<off_hour>[0-9]{2}):(?P<off_minute>[0-9]{2}))"
)


def http_date(text: str, wall: int) -> int | None:
    """Read an HTTP date of any of the three forms, always as UTC.

    Args:
        text: the field's value.
        wall: the present, ns since the epoch; it decides the century of a two-digit year, which is read as at most 50
            years in the future.

    Returns:
        Nanoseconds since the epoch, or None when it is no such date.
    """
    instant = _full_date(text)
    if instant is None and (match := _RFC850.fullmatch(text.lower())):
        return _instant(_century(int(match["year"]), wall), _month(match), match)
    return instant


def rfc3339(text: str) -> int | None:
    """Read an RFC 3339 date-time; return nanoseconds since the epoch, or None when it is none."""
    match = _RFC3339.fullmatch(text.lower())
    if match is None:
        return None
    instant = _instant(int(match["year"]), int(match["month"]), match)
    if instant is None:
        return None
    fraction = int((match["fraction"] or "0").ljust(9, "0")[:9])
    shift = 0
    if match["sign"] is not None:
        shift = (int(match["off_hour"]) * 60 + int(match["off_minute"])) * 60 * NS
    return instant + fraction + (shift if match["sign"] == "-" else -shift)


@lru_cache(maxsize=16)  # all answers of one second have the same Date
def date_time(ns: int) -> str:
    """Return an instant as an RFC 3339 date-time in UTC, with the milliseconds that were over.

    Example:
        >>> date_time(1_700_000_000_123_999_999)
        '2023-11-14T22:13:20.123Z'
    """
    whole, rest = divmod(ns, NS)
    return f"{_second(whole)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=4096)  # a page of deliveries has hundreds, and dashboards ask for the same one again and again
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def _full_date(text: str) -> int | None:
    lower = text.lower()
    match = _FIXDATE.fullmatch(lower) or _ASCTIME.fullmatch(lower)
    return _instant(int(match["year"]), _month(match), match) if match else None


def _month(match: re.Match[str]) -> int:
    return _MONTHS.get(match["month"], 0)


def _century(year: int, wall: int) -> int:
    present = date.fromordinal(min(max(wall // (86_400 * NS) + _EPOCH, 1), date.max.toordinal())).year
    full = present - present % 100 + year
    if full > present + 50:
        return full - 100
    return full + 100 if full <= present - 50 else full


def _instant(year: int, month: int, parts: re.Match[str]) -> int | None:
    hour, minute, second = int(parts["hour"]), int(parts["minute"]), int(parts["second"])
    if hour > 23 or minute > 59 or second > 60:  # 60 is a leap second
        return None
    try:
        days = date(year, month, int(parts["day"])).toordinal() - _EPOCH
    except ValueError:
        return None
    return (days * 86_400 + hour * 3_600 + minute * 60 + second) * NS
