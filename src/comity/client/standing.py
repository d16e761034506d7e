"""Standing: a call whose answer is handed out while its body is still on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from comity.client.read import Read
from comity.client.request import Request
from comity.client.response import Response
from comity.client.result import result
from comity.client.streamed import Body
from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange, Settled, Slot
from comity.engine.clock import Clock
from comity.engine.held import Held, Opened
from comity.policy.attempt import Attempt, joined
from comity.policy.outcome import Outcome

Over = Callable[[Request, Exchange[Response] | None, Slot], None]
"""`Dispatcher.over`."""


class Standing:
    """Where a streamed call stands.

    Args:
        over: is told how the attempt ended that brought the answer.

    Attributes:
        held: the call at its answer; None when that was read whole.
        before: the attempts of the call before it, if a new token was needed.
    """

    def __init__(self, over: Over) -> None:
        self.held: Held[Response] | None = None
        self.before: tuple[Attempt, ...] = ()
        self._over = over

    async def run(
        self, engine: AsyncEngine, call: Call, send: Callable[[Slot], Awaitable[Exchange[Response] | Opened[Response]]]
    ) -> Settled[Response]:
        """Make a call up to the head of its last answer; what that comes to is said by `body`."""
        got = await engine.open(call, send)
        if isinstance(got, Settled):
            return got
        self.held, head = got, got.opened.head
        outcome = Outcome(status=head.status_code)
        return Settled(value=head, error=None, outcome=outcome, attempts=(), reason="done")

    def body(self, head: Response, clock: Clock) -> Body:
        """Return the body of the answer that the call came to; at its end the call is over."""
        held, request = self.held, head.request
        if held is None:
            whole = Exchange(outcome=Outcome(status=head.status_code), value=head, timings=head.timings)
            return Body(Read(head, whole), lambda _: None, lambda: None, lambda _: None)

        def over(exchange: Exchange[Response]) -> None:
            self._over(request, exchange, held.slot)
            settled = held.over(exchange)
            settled.attempts = head.attempts = joined(self.before, settled.attempts)
            head.timings = exchange.timings
            if settled.error is not None:
                settled.error.history = tuple(each.masked() for each in head.history)
                result(request, settled, "never", clock, None)

        def drop() -> None:
            self._over(request, None, held.slot)
            held.drop()

        return Body(held.opened, over, drop, held.slot.settle)
