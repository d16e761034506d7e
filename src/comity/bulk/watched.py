"""Watched: the transport of a run, which notes for each row what goes over the wire, before and after.

It is the last stop before the first byte, so a request that must not be sent twice is put into the journal here: it was
granted its turn, and nothing of it has left yet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar

from comity.bulk.journal import Journal
from comity.bulk.rows import Row
from comity.bulk.tally import Tally
from comity.client.request import Request
from comity.client.response import Response
from comity.client.transport import Transport
from comity.engine.call import Exchange, Slot
from comity.policy.retry import IDEMPOTENT_METHODS
from comity.policy.timeouts import Timeout

CURRENT: ContextVar[Row] = ContextVar("comity.bulk.row")
"""The row that this task is working on."""

_PARKING = frozenset({408, 425, 429})


class Watched:
    """A transport around another.

    Args:
        inner: does the sending.
        tally: is told.
        journal: where intents go; None when there is none.

    Attributes:
        parked: called when a row begins or ends to wait for another attempt, so that others can go on meanwhile.
        settle: called before a byte leaves; writes what is finished, so that a kill makes no more rows be sent again than
            there are on the wire. False stops this row.
    """

    def __init__(self, inner: Transport, tally: Tally, journal: Journal | None = None) -> None:
        self.inner, self.tally, self.journal = inner, tally, journal
        self.parked: Callable[[Row], None] = _nobody
        self.settle: Callable[[], bool] = _settled

    async def send(self, request: Request, timeout: Timeout, slot: Slot) -> Exchange[Response]:  # noqa: ASYNC109
        """Send once, with everything noted that a resumed run needs to know."""
        row = CURRENT.get()
        state = row.state
        if self.journal is not None and not state.intended and must_not_repeat(request):
            await self._intend(self.journal, row)
        state.began = state.began or time.monotonic_ns()
        if state.parked:
            state.parked = False
            self.parked(row)
        if not self.settle():
            raise asyncio.CancelledError
        # Until an answer proves otherwise: whoever stops this task now does not know what became of the request.
        state.uncertain = True
        tally = self.tally
        tally.in_flight += 1
        try:
            exchange = await self.inner.send(request, timeout, slot)
        finally:
            tally.in_flight -= 1
        outcome = exchange.outcome
        state.uncertain = outcome.status is None and outcome.sent != "no"
        if outcome.sent != "no":
            if self.journal is not None and request.method not in IDEMPOTENT_METHODS:
                self.journal.unsafe.add(row.line)
            tally.sent += 1
            tally.retried += state.sends > 0
            state.sends += 1
        else:
            tally.unsent += 1
        tally.refused += outcome.refused
        status = outcome.status
        if status is None or status >= 500 or status in _PARKING:
            state.parked = True
            self.parked(row)
        return exchange

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()

    @staticmethod
    async def _intend(journal: Journal, row: Row) -> None:
        try:
            await journal.intend(row.line)
        except asyncio.CancelledError:
            journal.unsend(row.line)
            raise
        row.state.intended = True


def must_not_repeat(request: Request) -> bool:
    """Return whether sending a request twice could do something twice."""
    if request.keyed or request.idempotent:
        return False
    return request.idempotent is False or request.method not in IDEMPOTENT_METHODS


def _nobody(_row: Row) -> None:
    """Stand in until somebody wants to know."""


def _settled() -> bool:
    return True
