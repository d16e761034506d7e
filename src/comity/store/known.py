"""Known: the lanes that a store has seen, so that it need not look them up in every commit."""

from __future__ import annotations

from typing import NamedTuple


class Way(NamedTuple):
    """Where a lane leads, and whether it is an ordered one."""

    origin: str
    ordered: bool


class LaneRef(NamedTuple):
    """A lane by number and name, its origin, and whether it is ordered."""

    id: int
    key: str
    origin: int
    origin_name: str
    ordered: bool

    @property
    def way(self) -> Way:
        """Where it leads."""
        return Way(self.origin_name, self.ordered)


class Known:
    """What is remembered of lanes: what seldom changes once it is committed. Cleared whenever something is rolled back."""

    def __init__(self) -> None:
        self.by_key: dict[str, LaneRef] = {}
        self.by_id: dict[int, LaneRef] = {}
        self._generation = 0

    def add(self, lane: LaneRef) -> LaneRef:
        """Remember a lane."""
        self.by_key[lane.key] = self.by_id[lane.id] = lane
        return lane

    def be_of(self, generation: int) -> None:
        """Forget all of them if they were seen in another generation of the store's lanes."""
        if generation != self._generation:
            self.clear()
            self._generation = generation

    def forget(self, key: str) -> None:
        """Forget a lane."""
        if (lane := self.by_key.pop(key, None)) is not None:
            del self.by_id[lane.id]

    def clear(self) -> None:
        """Forget all of them."""
        self.by_key.clear()
        self.by_id.clear()
