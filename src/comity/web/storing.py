"""Storing: whether the store took what was submitted last."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from comity.errors import StoreError
from comity.policy.units import NS
from comity.service.log import Seldom
from comity.web.problem import STORE_RETRY

LOG = logging.getLogger("comity.web")

_QUIET = 60 * NS
"""So long the log is not told again that submissions are refused, once it was."""


class Storing:
    """How the last submission to a store went.

    A store that can still be read says nothing of whether it can be written: a disk may be full. So what submissions
    met is remembered, for as long as their senders are told to wait; then one more has to find out. The log is told when
    this changes, not of each.

    Args:
        clock: ns.

    Attributes:
        refusals: how many submissions the store refused, by its reason.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._refused: tuple[StoreError, int] | None = None
        self._since = self._count = 0  # since when submissions are refused, as the log was told, and how many were
        self._seldom = Seldom(_QUIET)
        self.refusals: Counter[str] = Counter()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Remember whether a submission made within was refused by the store."""
        try:
            yield
        except StoreError as error:
            self._note(error, self._clock())
            raise
        self._refused = None
        if self._count:
            took, count, self._count = (self._clock() - self._since) / NS, self._count, 0
            LOG.warning("the store takes submissions in again; in %.0f s it refused %d", took, count)

    @property
    def refuses(self) -> bool:
        """Whether the last submission was refused by the store."""
        return self._refused is not None

    def check(self) -> None:
        """Make sure that the last submission was stored, or that it was long ago.

        Raises:
            StoreError: why it was refused.
        """
        if self._refused is not None:
            error, at = self._refused
            if self._clock() - at < STORE_RETRY * NS:
                raise StoreError(str(error), reason=error.reason)

    def _note(self, error: StoreError, now: int) -> None:
        self._refused = error, now
        self.refusals[error.reason] += 1
        if not self._count:
            if not self._seldom.may("refused", now):  # one that comes and goes
                return
            self._since = now
            LOG.error("the store takes no submissions in: %s", error)
        self._count += 1
