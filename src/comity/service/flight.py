"""Flight: a send under way, which counts in whatever limiters begin before its answer has come.

A limiter that begins anew, as its limits were changed, cannot learn from the store when such a send will be answered, and
where a rate holds where it arrives a send counts from then.
"""

from __future__ import annotations

from functools import partial

from comity.engine.gate import Gate
from comity.policy.ticket import Ticket


class Flight:
    """One of them.

    Args:
        lane: the queue that it stood in.
    """

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self._counted: list[tuple[Gate, Ticket]] = []
        self._over = False

    def count_in(self, gate: Gate) -> None:
        """Count in a limiter that has just begun, as sent now, until it is over."""
        ticket = Ticket(0, gate.core.meters.ordinary)
        gate.change(partial(gate.core.carry, ticket))
        self._counted.append((gate, ticket))
        if self._over:  # while the limiter's past was read
            self.over()

    def over(self) -> None:
        """Count as answered now, wherever it counts."""
        self._over = True
        counted, self._counted = self._counted, []
        for gate, ticket in counted:
            gate.change(partial(gate.core.release, ticket))
