"""Schedule: when a request is due: at once, at a time, after a delay, or again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from comity.errors import OptionsError
from comity.policy.dates import rfc3339
from comity.policy.naming import unusable
from comity.policy.units import Seconds, required, seconds
from comity.service.cron import Cron


@dataclass(frozen=True, slots=True)
class Once:
    """One instant.

    Args:
        at: ns since the epoch.
    """

    at: int

    def next(self, after: int) -> int | None:
        """Return the instant, if it is after another one (ns since the epoch), else None."""
        return self.at if self.at > after else None


Schedule = Once | Cron
"""`next(after)` says when it is due; with `after` one less than the present, for the first time."""


def schedule_of(
    *,
    now: int,
    run_at: str | datetime | None = None,
    delay: Seconds | None = None,
    cron: str | None = None,
    zone: str | None = None,
) -> Schedule:
    """Return the schedule that a request asks for; at most one of `run_at`, `delay` and `cron` is given.

    Args:
        now: the present, ns since the epoch. Without anything else a request is due now.
        run_at: a date-time of RFC 3339 ("2026-12-24T18:00:00+01:00") or an aware datetime; one that is past means now.
        delay: seconds from now.
        cron: see `Cron`.
        zone: of `cron`; UTC by default.

    Raises:
        OptionsError: a value cannot be used, or two exclude one another.

    Example:
        >>> schedule_of(now=0, delay="90s").next(-1)
        90000000000
    """
    given = [name for name, value in (("run_at", run_at), ("delay", delay), ("cron", cron)) if value is not None]
    if len(given) > 1:
        raise OptionsError(given[1], None, reason=f"{given[0]} is given too, and one says it all", secret=True)
    if zone is not None and cron is None:
        raise unusable("zone", zone, reason="it belongs to cron; run_at has an offset of its own")
    if cron is not None:
        return Cron(cron, "UTC" if zone is None else zone)
    if delay is not None:
        return Once(now + seconds(required(delay, "delay")))
    return Once(now if run_at is None else max(now, _instant(run_at)))


def _instant(given: object) -> int:
    found: int | None = None
    if isinstance(given, str):
        found = rfc3339(given.strip())
    elif isinstance(given, datetime) and given.tzinfo is not None:
        found = (given - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1_000
    if found is None:
        raise unusable("run_at", given, 'a date-time with its offset such as "2026-12-24T18:00:00Z"')
    return found
