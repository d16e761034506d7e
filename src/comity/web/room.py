"""Room: how much is taken in."""

from __future__ import annotations

import time
from collections.abc import Callable

from comity.policy.units import NS
from comity.store.base import Store

_NEAR = 1_000
"""So many below the bound, or a tenth of it, the store counts: others may have taken in some since the last look."""


class Room:
    """How many deliveries may be alive at once.

    The store counts them exactly, but adds up what all lanes have for it; so it is asked to only near the bound. How far that is
    tells a count that is read again after a second, and what was stored meanwhile.

    Args:
        store: whose.
        most: pending and retrying ones together; None for no bound.
        clock: ns.
    """

    def __init__(self, store: Store, most: int | None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._store, self._most, self._clock = store, most, clock
        self._alive, self._read_at = 0, -NS

    async def bound(self, count: int) -> int | None:
        """Return what the store has to be told when so many more come; None for nothing.

        Raises:
            StoreError: the count cannot be read.
        """
        if self._most is None:
            return None
        now = self._clock()
        if now - self._read_at >= NS:
            found = await self._store.counts()
            self._alive, self._read_at = found.pending + found.retrying, now
        self._alive += count
        return self._most if self._alive > self._most - max(_NEAR, self._most // 10) else None
