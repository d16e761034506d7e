"""The service's log."""

from __future__ import annotations

import logging

log = logging.getLogger("comity.service")


class Seldom:
    """Lets the same thing be said again after a while only, whoever says it.

    Args:
        every: ns.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._said: dict[str, int] = {}

    def may(self, what: str, now: int) -> bool:
        """Return whether something may be said at `now`, which then counts as said."""
        said = self._said.get(what)
        if said is not None and now - said < self._every:
            return False
        self._said[what] = now
        return True
