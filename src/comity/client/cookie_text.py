"""The text of a Set-Cookie field, read as RFC 6265bis section 5.6 says: leniently, but by one rule for all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from comity.policy.units import NS

LONGEST = 4096
"""Characters of name and value together; a longer cookie is left out."""

_LONGEST_ATTRIBUTE = 1024
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SECONDS = re.compile(r"-?[0-9]+")
_DELIMITERS = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?![0-9])")
_DAY = re.compile(r"([0-9]{1,2})(?![0-9])")
_YEAR = re.compile(r"([0-9]{2,4})(?![0-9])")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(slots=True)
class SetCookie:
    """What a field says.

    Args:
        name, value: of the cookie.
        domain: in lower case, without a dot in front; "" when none is named.
        path: "" when none is named.
        secure: over https alone.
        expires: ns since the epoch, or None.
    """

    name: str
    value: str
    domain: str = ""
    path: str = ""
    secure: bool = False
    expires: int | None = None


def read(text: str, wall: int) -> SetCookie | None:
    """Read a Set-Cookie field; None when it is none.

    Args:
        text: the field's value.
        wall: the present, ns since the epoch.
    """
    if _CONTROL.search(text):
        return None
    pair, *attributes = text.split(";")
    name, mark, value = pair.partition("=")
    name, value = (name.strip(" \t"), value.strip(" \t")) if mark else ("", pair.strip(" \t"))
    # A nameless cookie that looks like one with a prefix would be taken for it by the server.
    hides = not name and value.lower().startswith(("__secure-", "__host-"))
    if hides or not (name or value) or len(name) + len(value) > LONGEST:
        return None
    cookie, max_age = SetCookie(name, value), False
    for attribute in attributes:
        key, _, given = attribute.partition("=")
        given = given.strip(" \t")
        if len(given) > _LONGEST_ATTRIBUTE:
            continue
        match key.strip(" \t").lower():
            case "expires" if not max_age:
                when = cookie_date(given)
                cookie.expires = cookie.expires if when is None else when
            case "max-age" if _SECONDS.fullmatch(given):
                # 19 digits would be more than the longest life; what a server means by them is "for ever".
                cookie.expires = wall + int(given[:18]) * NS if given[0] != "-" and given.strip("0") else 0
                max_age = True
            case "domain":
                cookie.domain = given.removeprefix(".").lower()
            case "path":
                cookie.path = given if given.startswith("/") else ""
            case "secure":
                cookie.secure = True
            case _:  # HttpOnly and SameSite concern browsers
                pass
    return cookie


def cookie_date(text: str) -> int | None:
    """Read a cookie's date (section 5.1.1): its parts in any order, always as UTC.

    Returns:
        Nanoseconds since the epoch, or None when it is none.
    """
    time = day = month = year = None
    for token in _DELIMITERS.split(text):
        if time is None and (found := _TIME.match(token)):
            time = [int(part) for part in found.groups()]
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
    if time is None or day is None or month is None or year is None:
        return None
    if year < 100:
        year += 1900 if year >= 70 else 2000
    if year < 1601:
        return None
    try:
        instant = datetime(year, month, day, time[0], time[1], time[2], tzinfo=UTC)
    except ValueError:
        return None
    return int(instant.timestamp()) * NS
