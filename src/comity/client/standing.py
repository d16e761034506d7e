"""Standing: a call whose answer is handed out while its body is still on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from comity.client.response import Response
from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange, Settled, Slot
from comity.engine.held import Held, Opened
from comity.policy.attempt import Attempt
from comity.policy.outcome import Outcome


@dataclass(slots=True)
class Standing:
    """Where a streamed call stands.

    Attributes:
        held: the call at its answer; None when that was read whole.
        slot: of the attempt that brought it.
        before: the attempts of the call before it, if a new token was needed.
    """

    held: Held[Response] | None = None
    slot: Slot | None = None
    before: tuple[Attempt, ...] = ()

    async def run(
        self, engine: AsyncEngine, call: Call, send: Callable[[Slot], Awaitable[Exchange[Response] | Opened[Response]]]
    ) -> Settled[Response]:
        """Make a call up to the head of its last answer; what that comes to is said by `over`."""
        got = await engine.open(call, send)
        if isinstance(got, Settled):
            return got
        self.held, head = got, got.opened.head
        outcome = Outcome(status=head.status_code)
        return Settled(value=head, error=None, outcome=outcome, attempts=(), reason="done")

    def over(self, exchange: Exchange[Response]) -> Settled[Response]:
        """Return how the call was settled, with all attempts."""
        assert self.held is not None
        settled = self.held.over(exchange)
        own = (replace(each, number=each.number + len(self.before)) for each in settled.attempts)
        settled.attempts = (*self.before, *own)
        return settled
