"""Rescuer: takes back what lost workers held, and fails what waited beyond its deadline. Any number may run at a time."""

from __future__ import annotations

import asyncio
import random

from comity.policy.units import NS
from comity.service.log import log
from comity.store.base import Store

_MOST = 500


class Rescuer:
    """Does so again and again.

    Args:
        store: where.
        every: seconds between two rounds, about; the first comes at once.
    """

    def __init__(self, store: Store, *, every: float = 5.0) -> None:
        self._store, self._every = store, every

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(self._every * random.uniform(0.8, 1.2))  # so that several do not come together

    async def round(self) -> None:
        """Do it once."""
        rescued = await self._store.rescue(min(NS, round(self._every * NS)))
        if rescued.leases:
            log.warning(
                "%d workers were lost: %d deliveries are ready again, %d came to an end",
                rescued.leases,
                rescued.returned,
                rescued.ended,
            )
        while await self._store.expire(_MOST) == _MOST:
            pass
