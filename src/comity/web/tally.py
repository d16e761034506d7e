"""Tally: attempts by how they ended, and how long answers took, as numbers that only rise.

They come from the store's sums of minutes, so they are of all workers on it. What changes no more is added up here; the last two
minutes, which transactions under way may still add to, are read again each time. So a reading costs the minutes since the last one,
however long the service runs. It begins with the first reading, as a counter may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Self

import msgspec

from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import Minute

_MINUTE = 60 * NS
_MOST = 60 * _MINUTE
"""What nobody asked for during so long is left out: it would be read at once, and a rate over it means little."""


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """What attempts came to: by outcome, and ns from the first byte to the answer over the `answered`."""

    ok: int = 0
    refused: int = 0
    failed: int = 0
    answered: int = 0
    time_sum: int = 0

    def plus(self, minute: Minute) -> Self:
        """Return the total with a minute more."""
        return type(self)(**{name: getattr(self, name) + getattr(minute, name) for name in self.__struct_fields__})


class Tally:
    """Adds them up."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._since: int | None = None
        self._whole, self._lanes = Total(), dict[str, Total]()
        self._told: tuple[Total, dict[str, Total]] = self._whole, self._lanes

    async def read(self, store: Store, lanes: Collection[str]) -> tuple[Total, Mapping[str, Total]]:
        """Return what came of all attempts, and of those of some lanes.

        Args:
            store: where they are.
            lanes: those of interest; of others nothing is kept.

        Raises:
            StoreError: the store does not take part.
        """
        async with self._reading:  # else two would add the same minutes
            now = await store.now()
            return self.add(await store.minutes(self.since(now), now + 1), now, lanes)

    def since(self, now: int) -> int:
        """Return from when on minutes are to be read."""
        begun = now - now % _MINUTE
        return begun if self._since is None else max(self._since, begun - _MOST)

    def add(self, minutes: Collection[Minute], now: int, lanes: Collection[str]) -> tuple[Total, Mapping[str, Total]]:
        """Take in the minutes since `since(now)`; return the totals with them."""
        since = self.since(now)
        if self._since not in {None, since}:  # too long ago: what was told of minutes that are not read again stands
            self._whole, self._lanes = self._told
        fixed = max(since, now - now % _MINUTE - _MINUTE)
        self._whole, self._lanes = self._summed([each for each in minutes if each.began_at < fixed], lanes)
        self._since = fixed
        self._told = self._summed([each for each in minutes if each.began_at >= fixed], lanes)
        return self._told

    def _summed(self, minutes: Collection[Minute], lanes: Collection[str]) -> tuple[Total, dict[str, Total]]:
        whole, by_lane = self._whole, {lane: self._lanes.get(lane, Total()) for lane in lanes}
        for each in minutes:
            whole = whole.plus(each)
            if each.lane in by_lane:
                by_lane[each.lane] = by_lane[each.lane].plus(each)
        return whole, by_lane
