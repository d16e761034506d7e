"""Pruner: deletes what is old enough, a little at a time, so that submissions hardly notice."""

from __future__ import annotations

import asyncio
import time

from comity.service.log import log
from comity.store.base import Store
from comity.store.records import Pruned, Retention

_LEAST_REST = 0.005


class Pruner:
    """Does so again and again.

    Args:
        store: where.
        retention: how long things are kept.
        every: seconds between two rounds.
        batch: rows of each kind that one transaction deletes.
    """

    def __init__(
        self, store: Store, retention: Retention | None = None, *, every: float = 60.0, batch: int = 500
    ) -> None:
        self._store, self._retention = store, retention or Retention()
        self._every, self._batch = every, batch

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            gone = await self.round()
            if gone:
                log.info("%d deliveries were old enough and deleted", gone)
            await asyncio.sleep(self._every)

    async def round(self) -> int:
        """Delete everything that is old enough by now; return how many deliveries that were.

        After each batch it rests twice as long as that took, so that at least two thirds of the writer's time are others'.
        """
        gone = 0
        while True:
            began = time.monotonic()
            pruned: Pruned = await self._store.prune(self._retention, self._batch)
            gone += pruned.deliveries
            if not pruned.more:
                return gone
            await asyncio.sleep(max(_LEAST_REST, 2 * (time.monotonic() - began)))
