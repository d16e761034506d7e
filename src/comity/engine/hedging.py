"""Hedging: sends an attempt that is late once more beside itself, and takes the answer that is there first.

The conversation knows of one attempt; what is sent beside it is told in its Exchange. A hedge has a ticket of its own, which
is given back where it was taken: when its send ends, however that is. The first send ends the attempt with whatever it
comes to; a hedge ends it with an answer that needs no other try, and comes to nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from comity.engine.call import Call, Exchange, Race, Slot
from comity.engine.gate import Gate
from comity.engine.observer import Observe, Reporter
from comity.policy.feedback import end_attempt
from comity.policy.outcome import asks_again
from comity.policy.retry import DONE, CallState, Decision, decide
from comity.policy.ticket import State, Ticket

T = TypeVar("T")

Send = Callable[[Slot], Awaitable[Exchange[T]]]


class Hedging:
    """What a hedged call may send beside itself.

    Args:
        gate: the host's; its policy has a hedge.
        call: what is sent; repeating it is harmless.
        draw: a random number in [0, 1).
        observe: is told every step.
    """

    def __init__(self, gate: Gate, call: Call, draw: Callable[[], float], observe: Observe | None) -> None:
        self._gate, self._call, self._draw = gate, call, draw
        self._reporter = None if observe is None else Reporter(observe, gate.core.name, gate.clock)

    async def send(self, slot: Slot, send: Send[T]) -> Exchange[T]:
        """Make one attempt.

        Args:
            slot: the attempt's.
            send: makes one wire attempt; it raises only when it is cancelled.
        """
        late, hedge = self._gate.core.latencies, self._gate.core.policy.hedge
        assert late is not None
        assert hedge is not None
        wait, began = late.late, self._gate.clock.now()
        exchange = await (send(slot) if wait is None else self._race(slot, send, wait, hedge.max))
        if _final(exchange):
            late.add(self._gate.clock.now() - began)
        return exchange

    async def _race(self, slot: Slot, send: Send[T], wait: int, most: int) -> Exchange[T]:
        first: asyncio.Future[Exchange[T]] = asyncio.ensure_future(send(slot))
        sends = _Sends(first, {first: slot}, [])
        try:
            ended = await self._first_to_count(sends, send, wait, most)
            exchange, winner = ended.result(), sends.running.pop(ended)
        finally:
            for each in sends.running:
                each.cancel()
        if sends.running:
            await asyncio.wait(sends.running)
            sends.lost += [(beside, None) for beside in sends.running.values()]
        if sends.lost:
            exchange.race = Race(winner, sends.lost)
        return exchange

    async def _first_to_count(
        self, sends: _Sends[T], send: Send[T], wait: int, most: int
    ) -> asyncio.Future[Exchange[T]]:
        """Return the send that ends the attempt, after sending beside the first whenever it is late, at most so often."""
        number = sends.running[sends.first].number
        last, patience = number + most, wait
        while True:
            timeout = patience / 1e9 if number < last else None
            done, _ = await asyncio.wait(sends.running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if sends.first in done:
                return sends.first
            for each in done:
                if _final(each.result()):
                    return each
                sends.lost.append((sends.running.pop(each), each.result()))
            if not done:
                beside = self._grant(number + 1)
                if beside is None:
                    patience *= 2  # nothing is free now: look again, more and more rarely
                    continue
                number, patience = number + 1, wait
                sends.running[asyncio.ensure_future(self._beside(beside, send))] = beside

    def _grant(self, number: int) -> Slot | None:
        """Return the right to send once more, if there is a slot for it now and the budget pays it."""
        gate, core, call = self._gate, self._gate.core, self._call
        ticket = Ticket(call.priority, core.meters.costs(call.cost))
        with gate.lock:
            now = gate.clock.now()
            if core.budget is not None and core.budget.left(now) < 1:
                return None
            if not core.grant_at_once(ticket, now):
                return None
            if core.budget is not None:
                core.budget.take(now)
        if self._reporter is not None:
            self._reporter.started(number, waited=0)
        return Slot(gate, ticket, lambda _: False, number, call.deadline, 0, 0, gate.clock.wall(), whole=True)

    async def _beside(self, slot: Slot, send: Send[T]) -> Exchange[T]:
        """Send once more, and give back what that holds."""
        gate, ticket = self._gate, slot.ticket
        try:
            exchange = await send(slot)
        except BaseException:

            def cut_short(now: int) -> None:
                gate.tally.cut_short(slot.number, sent=ticket.state is not State.GRANTED)
                gate.withdraw(ticket, now)

            gate.change(cut_short)
            raise

        def end(now: int) -> None:
            gate.tally.count(slot.number, exchange.outcome)
            end_attempt(gate.core, ticket, exchange.outcome, self._decision(exchange, now), now)

        gate.change(end)
        return exchange

    def _decision(self, exchange: Exchange[T], now: int) -> Decision:
        """Say what the host is to learn of a hedge; the call itself goes on with its first send."""
        if _final(exchange):
            return DONE
        state = CallState(attempts=1, refusals=1, refusals_in_a_row=1, idempotent=True)
        return decide(self._call.retry, state, exchange.outcome, now, self._draw())


@dataclass(slots=True)
class _Sends(Generic[T]):
    """The first send of an attempt, all that are under way, and those that came to nothing."""

    first: asyncio.Future[Exchange[T]]
    running: dict[asyncio.Future[Exchange[T]], Slot]
    lost: list[tuple[Slot, Exchange[T] | None]]


def _final(exchange: Exchange[T]) -> bool:
    """Return whether an answer came that needs no other try."""
    status = exchange.outcome.meaning
    return exchange.error is None and status is not None and not asks_again(status)
