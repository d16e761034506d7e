"""Permit: one entry through a Limiter's gate."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from comity.engine.gate import Gate
from comity.engine.refusal import refusal
from comity.policy.ticket import State, Ticket
from comity.policy.units import Seconds, as_ns, duration, priority as checked_priority
from comity.policy.windows import NEVER


class Permit:
    """One entry: `async with` in a task, `with` in a thread; it can be used again after it was left."""

    __slots__ = ("_gate", "_ticket", "_timeout")

    def __init__(self, gate: Gate, priority: int, cost: int | Mapping[str, int], timeout: Seconds | None) -> None:
        self._gate = gate
        self._ticket = Ticket(checked_priority(priority), gate.core.costs(cost))
        self._timeout = as_ns(duration(timeout, "timeout"))

    async def enter_loop(self) -> None:
        """Wait for the turn in a task."""
        ticket, gate = self._ticket, self._gate
        asked = self._ask()
        try:
            if not gate.enter_loop(ticket):
                await ticket.waiter.future
        except BaseException:
            gate.withdraw(ticket)
            raise
        self._begin(asked)

    def enter_thread(self) -> None:
        """Wait for the turn in a thread."""
        ticket, gate = self._ticket, self._gate
        asked = self._ask()
        try:
            if not gate.enter_thread(ticket):
                gate.wait_thread(ticket)
        except BaseException:
            gate.withdraw(ticket)
            raise
        self._begin(asked)

    def settle(self, actual: int | Mapping[str, int]) -> None:
        """Correct the reserved cost to what it really was; the limit counts it from the permit's start.

        Args:
            actual: in requests, or by budget; it may be more than was reserved, which delays who comes next.
        """
        self._gate.change(lambda now: self._gate.core.settle(self._ticket, actual, now))

    async def __aenter__(self) -> Self:
        await self.enter_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.release(self._ticket)

    def __enter__(self) -> Self:
        self.enter_thread()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.release(self._ticket)

    def _ask(self) -> int:
        now = self._gate.clock.now()
        self._ticket.deadline = NEVER if self._timeout is None else now + self._timeout
        self._ticket.enqueued_at = None
        return now

    def _begin(self, asked: int) -> None:
        """Start what was granted, or say why it was not."""
        if self._ticket.state is not State.GRANTED:
            raise refusal(self._ticket, self._gate, asked=asked)
        self._gate.started(self._ticket)
