"""Storing: whether the store took what was submitted last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from comity.errors import StoreError
from comity.policy.units import NS
from comity.web.problem import STORE_RETRY


class Storing:
    """How the last submission to a store went.

    A store that can still be read says nothing of whether it can be written: a disk may be full. So what submissions
    met is remembered, for as long as their senders are told to wait; then one more has to find out.

    Args:
        clock: ns.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._refused: tuple[StoreError, int] | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Remember whether a submission made within was refused by the store."""
        try:
            yield
        except StoreError as error:
            self._refused = error, self._clock()
            raise
        self._refused = None

    def check(self) -> None:
        """Make sure that the last submission was stored, or that it was long ago.

        Raises:
            StoreError: why it was refused.
        """
        if self._refused is not None:
            error, at = self._refused
            if self._clock() - at < STORE_RETRY * NS:
                raise StoreError(str(error), reason=error.reason)
