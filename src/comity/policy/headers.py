"""Hints: what an answer's headers say about waiting and about quotas.

    Retry-After                         seconds (decimals tolerated) or an HTTP date          RFC 9110, 10.2.3
    retry-after-ms                      milliseconds
    RateLimit, RateLimit-Policy         structured fields: r, t; q, w, qu                     draft-ietf-httpapi-ratelimit-headers-11
    RateLimit-{Limit,Remaining,Reset}   older drafts of the same
    X-RateLimit-*, X-Rate-Limit-*       reset as a delay or an instant; X-Rate-Limit-Interval is the window
    x-ratelimit-*-{requests,tokens}     reset as "6m0s" or "20ms"
    anthropic-ratelimit-*               reset as RFC 3339
    a policy's own names                `HeaderNames`

A reset that is a number is read by its size: up to 366 days it is a delay in seconds; from 10**9 to 10**11 an instant in
seconds since the epoch, from 10**12 to 10**14 in milliseconds; anything else fits no plausible instant. What is malformed
or implausible counts as absent: a guess would be worse than the ordinary backoff. Instants are compared with the
answer's own `Date`, so a wrong clock on either side does no harm, and a past instant is a wait of 0. Only a Retry-After that
is sound but longer than 366 days counts, as 366 days: the server wants no request, however it meant it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from comity.policy.dates import http_date
from comity.policy.header_names import CONTEXT, USUAL, HeaderNames
from comity.policy.quotas import LONGEST, Quota, families, reset, structured
from comity.policy.structured import whole
from comity.policy.units import NS, decimal

_VALUES = re.compile(r"\s*((?:[A-Za-z]{3,9}, )?[^,]+)")
_MANY_DIGITS = re.compile(r"[0-9]{19,}")
_TOO_LONG = 4_096  # characters; no such field says anything about waiting, and reading it would cost time


class Hints(NamedTuple):
    """What an answer said about waiting.

    Args:
        retry_after: ns from the answer's arrival before which the server wants no request, or None.
        quotas: the quotas that it announced.
    """

    retry_after: int | None = None
    quotas: tuple[Quota, ...] = ()


NO_HINTS = Hints()


def read_hints(
    headers: Iterable[tuple[str, str]], *, status: int, wall: int, names: HeaderNames | None = None
) -> Hints:
    """Read what an answer says about waiting and quotas.

    Args:
        headers: the answer's fields, in order.
        status: its status. A 429 that names no wait but a reset is to be retried at the reset.
        wall: when it arrived, ns since the epoch; used where the answer has no valid `Date`.
        names: the API's own names, besides the usual ones.

    Returns:
        The hints. Never raises; what is malformed counts as absent.

    Example:
        >>> read_hints([("Retry-After", "2")], status=429, wall=0).retry_after
        2000000000
    """
    names = names or USUAL
    known = names.known
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key in known:
            found[key] = f"{found[key]}, {value.strip()}" if key in found else value
    if len(found) <= len(CONTEXT) and found.keys() <= CONTEXT:
        return NO_HINTS
    fields = {key: value.strip(" \t") for key, value in found.items() if len(value) <= _TOO_LONG}
    present = partial(_present, fields, wall)
    quotas = () if _cached(fields) else (*structured(fields), *families(fields, names.places, present))
    wait = _retry_after(fields, names, present)
    if wait is None and status == 429:
        wait = _until_reset(quotas)
    return Hints(wait, quotas)


def _present(fields: Mapping[str, str], wall: int) -> int:
    """Return the present time on the server's clock: a cached answer's `Date` is `Age` seconds old."""
    date = http_date(fields.get("date", ""), wall)
    return wall if date is None else date + (whole(fields.get("age")) or 0) * NS


def _cached(fields: Mapping[str, str]) -> bool:
    """Return whether a cache answered: its quotas were somebody's, some time ago (draft-11, 5)."""
    return bool(whole(fields.get("age")))


def _retry_after(fields: Mapping[str, str], names: HeaderNames, present: Callable[[], int]) -> int | None:
    """Return the wait that was asked for; the finest statement of it counts."""
    wait = decimal(fields.get("retry-after-ms", ""), 1_000_000)
    if wait is None and "retry-after" in fields:
        wait = _longest(fields["retry-after"], present)
    if wait is None and names.retry_after is not None:
        wait = reset(fields.get(names.retry_after, ""), present)
    return None if wait is None else min(wait, LONGEST)


def _longest(text: str, present: Callable[[], int]) -> int | None:
    """Return the wait that a Retry-After names; of several that stand in one answer the longest.

    A field that is sent twice is joined by commas, and a date has a comma of its own.
    """
    waits = [_wait(each.strip(), present) for each in _VALUES.findall(text)]
    named = [wait for wait in waits if wait is not None]
    return max(named) if named and len(named) == len(waits) else None


def _wait(text: str, present: Callable[[], int]) -> int | None:
    if _MANY_DIGITS.fullmatch(text):
        return LONGEST
    wait = decimal(text)
    if wait is not None:
        return wait
    now = present()
    instant = http_date(text, now)
    return None if instant is None else max(0, instant - now)


def _until_reset(quotas: Iterable[Quota]) -> int | None:
    """Return when the quota that refused is there again: the last of those that are used up.

    With some of every quota left the refusal had another reason, and a reset would tell nothing about it.
    """
    known = [(quota.remaining, quota.reset) for quota in quotas if quota.reset is not None]
    used_up = [wait for remaining, wait in known if remaining == 0]
    unsaid = [wait for remaining, wait in known if remaining is None]
    return max(used_up or unsaid, default=None)
