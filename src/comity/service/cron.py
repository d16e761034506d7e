"""Cron: times that come again, in five fields, by the clock of a time zone.

    minute 0-59   hour 0-23   day of month 1-31   month 1-12 or jan-dec   day of week 0-7 or sun-sat, 0 and 7 are Sunday

    *    all       5    this       1-5    from, to       1-5/2, */15    every so many of these       1,3,7-9    any of these

Days count as in the cron of Unix: when both fields of days are restricted (neither begins with `*`), a day that fits one of
them is enough; else it has to fit both.

Where a zone sets its clock forward, what would be due at a time that does not exist is due at the moment of the jump, once.
Where it sets it back, an expression for every hour goes on through both passes of the repeated time; any other is due in
the first of them alone. So nothing is left out, and nothing that is meant to come once comes twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from datetime import date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from comity.errors import OptionsError
from comity.policy.naming import unusable
from comity.policy.units import NS

_FORM = 'five fields such as "*/15 9-17 * * mon-fri": minute, hour, day of month, month, day of week'
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: Mapping[str, int] = {}

    def number(self, text: str) -> int:
        """Return what a number or a word stands for, -1 when that is nothing."""
        return int(text) if text.isdigit() else self.words.get(text, -1)

    @property
    def allowed(self) -> str:
        words = list(self.words)
        named = f" or {words[0]} to {words[-1]}" if words else ""
        lowest, highest = self.least, self.most
        return f'{lowest} to {highest}{named}, single or as a rising range such as "{lowest}-{highest}/2"'


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Field("day of week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_ITEM = re.compile(r"(?:(\*)|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY = 86_400
_NO_ZONES = {"localtime", "posixrules", "Factory"}
"""Files beside those of the zones: what they mean is each machine's own affair, or nothing."""
_EPOCH = date(1970, 1, 1).toordinal()


class Cron:
    """Times that an expression names, in a zone.

    Args:
        expression: five fields.
        zone: an IANA name such as "Europe/Berlin".

    Raises:
        OptionsError: a field cannot be read, no day fits, or the zone is unknown here.

    Example:
        >>> Cron("30 6 * * mon").next(0) // 10**9 == 4 * 86_400 + 6 * 3_600 + 30 * 60
        True
    """

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        given: object = expression
        fields = given.lower().split() if isinstance(given, str) else []
        if len(fields) != len(_FIELDS):
            raise unusable("cron", expression, _FORM, reason=f"it has {len(fields)} fields")
        minutes, hours, days, months, weekdays = (
            _read(text, field, expression) for text, field in zip(fields, _FIELDS, strict=True)
        )
        self.expression, self.zone = expression, zone
        self._zone = _zone(zone)
        self._times = sorted(hour * 60 + minute for hour in hours for minute in minutes)
        self._every_hour = len(hours) == 24
        self._days, self._months = days, months
        self._weekdays = frozenset(each % 7 for each in weekdays)
        self._either = fields[2][0] != "*" and fields[4][0] != "*"
        if not self._either and min(days) > max(_LONGEST_MONTHS[month - 1] for month in months):
            raise unusable("cron", expression, _FORM, reason="there is no such day")

    def next(self, after: int) -> int:
        """Return the first instant after another one, both ns since the epoch."""
        return self._next(after // NS) * NS

    def _next(self, now: int) -> int:
        """Return the first instant after `now`, s.

        A wall time is counted in seconds as if the zone were UTC. Between two changes of the zone's offset it runs with
        the instants; each turn of the loop looks at one such stretch.
        """
        offset = self._offset(now)
        floor = now + offset
        if self._repeats(now) and not self._every_hour:
            begin = self._change(now - _DAY, now) or now
            floor = max(floor, begin + self._offset(begin - 1) - 1)
        while True:
            wall = self._wall_after(floor)
            change = self._change(now, wall - offset)
            if change is None:
                return wall - offset
            before, offset = offset, self._offset(change)
            if wall < change + offset:
                return change  # it was jumped over
            # All but what is due every hour has had its turn in the first pass of a repeated time.
            floor = change + (offset if self._every_hour else max(before, offset)) - 1
            now = change

    def _wall_after(self, wall: int) -> int:
        day, second = divmod(wall, _DAY)
        place = bisect_left(self._times, second // 60 + 1)
        if place == len(self._times) or not self._fits(date.fromordinal(_EPOCH + day)):
            day, place = self._day_after(day), 0
        return day * _DAY + self._times[place] * 60

    def _day_after(self, day: int) -> int:
        found = date.fromordinal(_EPOCH + day + 1)
        while not self._fits(found):
            if found.month in self._months:
                found = date.fromordinal(found.toordinal() + 1)
            else:
                found = date(found.year + found.month // 12, found.month % 12 + 1, 1)
        return found.toordinal() - _EPOCH

    def _fits(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        of_month, of_week = day.day in self._days, day.isoweekday() % 7 in self._weekdays
        return of_month or of_week if self._either else of_month and of_week

    def _change(self, start: int, end: int) -> int | None:
        """Return the first instant after `start`, up to `end`, at which the offset is another; none changes twice a day."""
        offset = self._offset(start)
        while start < end:
            stop = min(start + _DAY, end)
            if self._offset(stop) != offset:
                while stop - start > 1:
                    middle = (start + stop) // 2
                    start, stop = (middle, stop) if self._offset(middle) == offset else (start, middle)
                return stop
            start = stop
        return None

    def _offset(self, instant: int) -> int:
        shift = datetime.fromtimestamp(instant, self._zone).utcoffset()
        assert shift is not None
        return shift.days * _DAY + shift.seconds

    def _repeats(self, instant: int) -> bool:
        """Tell whether the clock shows at an instant what it has shown before."""
        return datetime.fromtimestamp(instant, self._zone).fold == 1


def _read(text: str, field: _Field, expression: str) -> frozenset[int]:
    """Return the numbers that a field's text names."""
    found: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        every, first, last, step = match.groups() if match else (None, "", None, None)
        if step is not None and not every and last is None:
            raise _wrong(item, field, expression, f'say from where to where: "{first}-{field.most}/{step}"')
        low = field.least if every else field.number(first)
        high = field.most if every else field.number(last or first)
        if field.most == 7 and low > high == 0:
            high = 7  # a range that ends with Sunday
        stride = int(step or 1)
        if not field.least <= low <= high <= field.most or not stride:
            raise _wrong(item, field, expression)
        if every and stride > high - low:
            raise _wrong(item, field, expression, f"so long a step reaches nothing but {low}, so say that")
        found.update(range(low, high + 1, stride))
    return frozenset(found)


def _wrong(item: str, field: _Field, expression: str, hint: str = "") -> OptionsError:
    return unusable("cron", expression, hint=hint, reason=f"{item!r} is no {field.name}; that is {field.allowed}")


def _zone(name: object) -> ZoneInfo:
    try:
        if isinstance(name, str) and (name in _NO_ZONES or name.startswith(("posix/", "right/"))):
            raise LookupError(name)
        return ZoneInfo(name)  # type: ignore[arg-type]
    except (LookupError, ValueError, TypeError, OSError):
        allowed = 'an IANA name such as "Europe/Berlin"'
        raise unusable("zone", name, allowed, "a system without zones gets them from the package tzdata") from None
