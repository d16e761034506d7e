"""Control: anything that limits a host as a whole."""

from __future__ import annotations

from typing import Protocol


class Control(Protocol):
    """A cap on what runs, and an earliest start."""

    @property
    def cap(self) -> int:
        """Return how many may run at once."""

    @property
    def until(self) -> int:
        """Return the earliest start, ns."""
