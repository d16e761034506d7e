"""Turns: one bound over many hosts, shared out in turns when it is full (`max_connections`)."""

from __future__ import annotations

from collections.abc import Hashable


class Turns:
    """Places that hosts take and give back; who finds none stands in line, one place a turn."""

    __slots__ = ("free", "line")

    def __init__(self, places: int) -> None:
        self.free = places
        self.line: dict[Hashable, None] = {}

    def take(self, who: Hashable) -> bool:
        """Take a place for `who`, unless none is free or another stands before it in line."""
        line = self.line
        if not self.free or (line and next(iter(line)) != who):
            line.setdefault(who)
            return False
        line.pop(who, None)
        self.free -= 1
        return True

    def give(self) -> None:
        """Give a place back."""
        self.free += 1

    def next(self) -> Hashable | None:
        """Return whose turn it is, when a place is free."""
        return next(iter(self.line), None) if self.free else None

    def leave(self, who: Hashable) -> None:
        """Take `who` out of the line: it needs no place any more."""
        self.line.pop(who, None)
