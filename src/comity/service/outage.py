"""Outage: a time in which the store does not take part, and who waits for its end instead of failing."""

from __future__ import annotations

from comity.errors import LeaseLost, StoreError
from comity.service.log import log

_LASTING = {"closed", "schema", "corrupt"}
"""What no waiting mends."""


def passes(error: BaseException) -> bool:
    """Whether an error is one of the store's that may pass by itself: it is away, busy or full, or takes no writes."""
    return isinstance(error, StoreError) and not isinstance(error, LeaseLost) and error.reason not in _LASTING


class Outage:
    """Told once when it begins and once when it is over, however often somebody asks in between.

    Args:
        who: waits for its end.
    """

    def __init__(self, who: str) -> None:
        self._who, self._lasts = who, False

    def bear(self, error: Exception) -> None:
        """Note that the store refused something.

        Raises:
            Exception: the error itself, when waiting does not mend it.
        """
        if not passes(error):
            raise error
        if not self._lasts:
            log.warning("%s waits for the store: %s", self._who, error)
        self._lasts = True

    def over(self) -> None:
        """Note that the store did something."""
        if self._lasts:
            log.warning("%s goes on: the store takes part again", self._who)
        self._lasts = False
