"""Turn: a lane's own limits, which hold besides those of its origin.

A delivery passes its lane's gate first and then its origin's, always in this order, so that nobody waits for another in a
circle. What it takes from the lane meanwhile is the lane's alone: others are held up by nothing.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from comity.engine.call import Slot
from comity.engine.clock import Clock
from comity.engine.gate import Gate
from comity.engine.refusal import refusal
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.ticket import State, Ticket

UNLIMITED = Policy(concurrency=None, learn=None)
"""What a lane's limits are set upon."""


def lane_gate(policy: Policy, name: str, clock: Clock) -> Gate:
    """Return the gate of a lane."""
    return Gate(HostLimiter(policy, clock.now(), name=name), clock, threading.Lock())


class Turn:
    """A delivery's place at its lane's gate, for `async with`.

    Args:
        gate: the lane's.
        priority: 0 (first) to 9.
        patience: ns that it may wait.
    """

    def __init__(self, gate: Gate, priority: int, patience: int) -> None:
        self._gate, self._asked = gate, gate.clock.now()
        self._ticket = Ticket(priority, gate.core.meters.ordinary, self._asked + patience)

    async def __aenter__(self) -> Self:
        gate, ticket = self._gate, self._ticket
        try:
            if not gate.enter_loop(ticket):
                await ticket.waiter.future
            if ticket.state is not State.GRANTED:
                raise refusal(ticket, gate, asked=self._asked)
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def counts(self, slot: Slot) -> None:
        """Let the first byte of what has an origin's slot count for the lane too."""
        slot.also = lambda: self._gate.started(self._ticket)

    def _leave(self) -> None:
        self._gate.change(lambda now: self._gate.withdraw(self._ticket, now))
