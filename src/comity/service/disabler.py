"""Disabler: pauses lanes that nothing but failures came of for long, so that a receiver that is gone is left alone."""

from __future__ import annotations

import asyncio

from comity.policy.units import seconds
from comity.service.log import log
from comity.store.base import Store

_MOST = 500


class Disabler:
    """Does so again and again, ten times within that time, but 1 to 30 s apart. Any number may run at a time.

    Args:
        store: where.
        after: seconds of nothing but failures.
    """

    def __init__(self, store: Store, after: float) -> None:
        self._store, self._after = store, seconds(after)
        self._every = min(30.0, max(1.0, after / 10))

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(self._every)

    async def round(self) -> None:
        """Do it once."""
        while lanes := await self._store.disable(self._after, _MOST):
            for lane in lanes:
                log.warning("the lane %s is paused: %s", lane.key, lane.pause_reason)
