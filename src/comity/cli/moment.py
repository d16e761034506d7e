"""Moment: a time that an option names, by itself or as a length before now."""

from __future__ import annotations

from comity.errors import OptionsError
from comity.policy.dates import date_time, rfc3339
from comity.policy.units import required, seconds


def moment(text: str, option: str, now: int) -> str:
    """Return a time as the API reads it.

    Args:
        text: RFC 3339, or a length such as "1h": so long before now.
        option: what it is given by.
        now: ns since the epoch.

    Raises:
        OptionsError: it is neither.

    Example:
        >>> moment("90min", "--since", 1_700_000_000_000_000_000), moment("2026-12-24T18:00:00Z", "--since", 0)
        ('2023-11-14T20:43:20.000Z', '2026-12-24T18:00:00Z')
    """
    if rfc3339(text) is not None:
        return text
    try:
        return date_time(now - seconds(required(text, option)))
    except (OptionsError, ValueError, OverflowError):
        allowed = 'a time such as "2026-12-24T18:00:00Z", or a length before now such as "1h"'
        raise OptionsError(option, text, allowed) from None
