"""Pruner: deletes what is old enough, a little at a time, so that submissions hardly notice."""

from __future__ import annotations

import asyncio

from comity.policy.units import NS
from comity.service.log import log
from comity.store.base import Store
from comity.store.records import Retention

_LEAST_REST = 0.005
_BUSY = NS // 100
"""So long a transaction may be busy with it, and who submits meanwhile waits: how many rows that are is for each store to tell."""

_LEAST = 100
"""Fewer hardly take less, where a transaction waits for its turn on a busy machine; and so old ones do go away there, too."""


class Pruner:
    """Does so again and again.

    Args:
        store: where.
        retention: how long things are kept.
        every: seconds between two rounds.
        batch: rows of each kind that one transaction deletes at most; fewer where that takes longer than 10 ms.
    """

    def __init__(
        self, store: Store, retention: Retention | None = None, *, every: float = 60.0, batch: int = 500
    ) -> None:
        self._store, self._retention = store, retention or Retention()
        self._every, self._batch = every, batch
        self._most = min(_LEAST, batch)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            gone = await self.round()
            if gone:
                log.info("%d deliveries were old enough and deleted", gone)
            await asyncio.sleep(self._every)

    async def round(self) -> int:
        """Delete everything that is old enough by now; return how many deliveries that were.

        After each batch it rests four times as long as that took; with the commit, which takes about as long again, at least two
        thirds of the writer's time are others'.
        """
        gone = 0
        while True:
            pruned = await self._store.prune(self._retention, self._most)
            gone += pruned.deliveries
            if not pruned.more:
                return gone
            self._most = following(self._most, pruned.took, self._batch)
            await asyncio.sleep(max(_LEAST_REST, 4 * pruned.took / NS))


def following(most: int, took: int, ceiling: int) -> int:
    """Return how many rows the next batch may have, as one of `most` took so long, ns: twice as many at most.

    Example:
        >>> following(400, 20_000_000, 500), following(110, 1_000, 500), following(400, 1_000, 500)
        (200, 220, 500)
    """
    return min(ceiling, max(_LEAST, min(2 * most, most * _BUSY // max(1, took))))
