"""Polling: how long to wait before asking again about work that is not finished, when nobody knows its end.

    by the time that has passed     0 to 5 s: 2 s      5 to 15 s: 4 s      15 to 30 s: 8 s      from 30 s: 16 s
    by how much is done             0 to 25 %: 3 s     26 to 75 %: 2 s     76 to 99 %: 1 s

Work that took long so far will take long still; work that tells its percentage is looked at more often near its end.
"""

from __future__ import annotations

from comity.policy.units import NS

_BY_ELAPSED = ((5 * NS, 2 * NS), (15 * NS, 4 * NS), (30 * NS, 8 * NS))
_LONGEST = 16 * NS
_BY_PERCENT = ((26, 3 * NS), (76, 2 * NS))
_SHORTEST = 1 * NS


def by_elapsed(elapsed: int) -> int:
    """Return the wait, ns.

    Args:
        elapsed: ns since the work was given.

    Example:
        >>> by_elapsed(5_000_000_000)
        4000000000
    """
    return next((wait for until, wait in _BY_ELAPSED if elapsed < until), _LONGEST)


def by_percent(percent: float) -> int:
    """Return the wait, ns.

    Args:
        percent: how much is done, 0 to 100.

    Example:
        >>> by_percent(25.9), by_percent(26)
        (3000000000, 2000000000)
    """
    return next((wait for until, wait in _BY_PERCENT if percent < until), _SHORTEST)
