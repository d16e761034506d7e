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

    __slots__ = ("_costs", "_gate", "_priority", "_ticket", "_timeout")

    def __init__(self, gate: Gate, priority: int, cost: int | Mapping[str, int], timeout: Seconds | None) -> None:
        self._gate = gate
        self._priority, self._costs = checked_priority(priority), gate.core.meters.costs(cost)
        self._timeout = as_ns(duration(timeout, "timeout"))
        self._ticket: Ticket | None = None

    async def enter_loop(self) -> None:
        """Wait for the turn in a task."""
        gate, asked = self._gate, self._gate.clock.now()
        ticket, change = self._new(asked), gate.change
        try:
            if not gate.enter_loop(ticket):
                await ticket.waiter.future
            self._begin(ticket, asked)
        except GeneratorExit:  # a forgotten coroutine is being destroyed
            change = gate.change_unwaiting
            raise
        finally:
            if ticket.state is not State.STARTED:
                change(lambda now: gate.withdraw(ticket, now))

    def enter_thread(self) -> None:
        """Wait for the turn in a thread."""
        gate, asked = self._gate, self._gate.clock.now()
        ticket = self._new(asked)
        try:
            if not gate.enter_thread(ticket):
                gate.wait_thread(ticket)
            self._begin(ticket, asked)
        finally:
            if ticket.state is not State.STARTED:
                gate.change(lambda now: gate.withdraw(ticket, now))

    def leave(self, kind: type[BaseException] | None) -> None:
        """Give back what was taken; `kind` of error ends it."""
        ticket, gate = self._ticket, self._gate
        assert ticket is not None
        change = gate.change_unwaiting if kind is GeneratorExit else gate.change
        change(lambda now: gate.core.release(ticket, now))

    def settle(self, actual: int | Mapping[str, int]) -> None:
        """Correct the reserved cost to what it really was; the limit counts it from the permit's start.

        Args:
            actual: in requests, or by budget; it may be more than was reserved, which delays who comes next.
        """
        ticket, gate = self._ticket, self._gate
        if ticket is not None:
            gate.change(lambda now: gate.core.settle(ticket, actual, now))

    async def __aenter__(self) -> Self:
        await self.enter_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(kind)

    def __enter__(self) -> Self:
        self.enter_thread()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(kind)

    def _new(self, now: int) -> Ticket:
        if self._ticket is not None and self._ticket.state in _IN_USE:
            raise RuntimeError("this permit is in use; acquire one for each entry")
        deadline = NEVER if self._timeout is None else now + self._timeout
        self._ticket = Ticket(self._priority, self._costs, deadline)
        return self._ticket

    def _begin(self, ticket: Ticket, asked: int) -> None:
        """Start what was granted, or say why it was not."""
        if ticket.state is not State.GRANTED:
            raise refusal(ticket, self._gate, asked=asked)
        self._gate.started(ticket)


_IN_USE = frozenset({State.WAITING, State.GRANTED, State.STARTED, State.ANSWERED})
