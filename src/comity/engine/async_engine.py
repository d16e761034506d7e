"""AsyncEngine: drives calls as tasks of an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from comity.engine.call import Aside, Call, Exchange, Settled, Slot
from comity.engine.conversation import Conversation, converse
from comity.engine.engine import Engine

T = TypeVar("T")


class AsyncEngine(Engine):
    """Drives calls as tasks, in any number of event loops.

    Example:
        engine = AsyncEngine(Hosts(Policy(rate="50/5s")))
        settled = await engine.run(Call(host="api.example", retry=Retry()), send)
    """

    async def run(self, call: Call, send: Callable[[Slot], Awaitable[Exchange[T]]]) -> Settled[T]:
        """Send, and send again as the policy says, until the call is settled.

        Args:
            call: the request.
            send: makes one wire attempt and returns what it came to; it raises only when it is cancelled.

        Returns:
            The last attempt's value or error, and all attempts; an HTTP error status is a result here.

        Raises:
            HostBlocked, QueueFull, QueueTimeout, ClientClosed, TimedOut: its turn did not come.
        """
        gate = self.hosts.gate(call.host)
        steps: Conversation[T] = converse(call, gate, gate.enter_loop, self._draw, self.hosts.observe)
        reply: Exchange[T] | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                settled: Settled[T] = end.value
                return settled
            reply = None
            try:
                if isinstance(step, Slot):
                    reply = await send(step)
                elif isinstance(step, Aside):
                    await step.until()
                else:
                    await step.waiter.future
            except BaseException as error:
                steps.throw(error)  # it gives back what it holds, and raises the same
                raise
