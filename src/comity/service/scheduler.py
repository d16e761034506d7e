"""Scheduler: makes the next run of schedules when that is due. Any number may run at a time: the store makes each run once.

A run waits in the store from the time of the one before it on, so it goes at its own time though no scheduler be awake then;
the scheduler has until the time after that. So it need not be exact: it sleeps until the next run is due, looks when there is
news, which may be of a schedule that is new or of a run that ended, and now and then, as the store's clock may be set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from comity.errors import OptionsError
from comity.policy.units import NS
from comity.service.log import log
from comity.service.schedule import next_run
from comity.store.base import Store
from comity.store.schedules import DueSince, NextRun, Schedule

_MOST = 500


class Scheduler:
    """Does so again and again.

    Args:
        store: where.
        every: seconds between two looks at most.
        rest: seconds between two looks at least when there is news; all that happens meanwhile costs one.
    """

    def __init__(self, store: Store, *, every: float = 10.0, rest: float = 1.0) -> None:
        self._store, self._every, self._rest = store, every, rest
        self._told = set[str]()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            seen = await self._store.last_event()
            wait = await self.round()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await asyncio.sleep(self._rest)
                    await self._store.newer(seen)

    async def round(self) -> float:
        """Make every run that is due by now; return in how many seconds to look again, without news."""
        after: DueSince | None = None
        while True:
            due = await self._store.due_schedules(_MOST, after=after)
            await self._go_on(due.schedules)
            after = due.last
            if after is None:
                return self._every if due.next_in is None else min(self._every, due.next_in / NS)

    async def make(self, schedule: str) -> None:
        """Make the next run of one schedule, if that is due."""
        await self._go_on((await self._store.due_schedules(1, of=schedule)).schedules)

    async def _go_on(self, schedules: Sequence[Schedule]) -> None:
        """Make the next run of each."""
        now = await self._store.now()
        runs: list[NextRun] = []
        for each in schedules:
            try:
                runs.append(next_run(each, now))
            except OptionsError as error:
                self._tell(each, error)
        if not runs:
            return
        try:
            await self._store.advance(runs)
        except OptionsError as error:
            if len(schedules) == 1:
                self._tell(schedules[0], error)
                return
            for each in schedules:  # one of them is at fault, and holds no other up
                await self._go_on([each])

    def _tell(self, of: Schedule, error: OptionsError) -> None:
        """Log why a run cannot be made, once."""
        if of.id not in self._told:
            self._told.add(of.id)
            log.error("the schedule %s stands still: its next run cannot be made here: %s", of.id, error)
