"""Schedule: which times the runs of a schedule are for.

Times that passed while nobody was there to make their runs are not made up for: the run that had waited goes at once, and the next
one is for the first time that is still to come.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from comity.service.cron import Cron
from comity.store.records import NewDelivery
from comity.store.schedules import NewSchedule, NextRun, Schedule

times = lru_cache(maxsize=1024)(Cron)
"""The times that an expression names in a zone."""


def with_first_time(new: NewDelivery | NewSchedule, now: int) -> NewDelivery | NewSchedule:
    """Return what is submitted with its first time, when it is a schedule; `now` is the store's, ns."""
    return replace(new, first_at=times(new.cron, new.zone).next(now)) if isinstance(new, NewSchedule) else new


def next_run(of: Schedule, now: int) -> NextRun:
    """Return the run that follows a schedule's newest.

    It is never for a time that had its run, though the clock be set back.

    Raises:
        OptionsError: the zone is unknown on this machine.
    """
    return NextRun(schedule=of.id, before=of.next_at, at=times(of.cron, of.zone).next(max(now, of.next_at)))
