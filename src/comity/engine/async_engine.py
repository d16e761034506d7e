"""AsyncEngine: drives calls as tasks of an event loop."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from comity.engine.call import Call, Exchange, Settled, Slot
from comity.engine.clock import Clock
from comity.engine.conversation import Conversation, converse
from comity.engine.hosts import Hosts
from comity.engine.stats import Stats

T = TypeVar("T")


class AsyncEngine:
    """Runs calls against the limiters of `hosts`, from any number of loops.

    Args:
        hosts: whose limits hold.
        draw: a random number in [0, 1), for jitter.

    Example:
        engine = AsyncEngine(Hosts(Policy(rate="50/5s")))
        settled = await engine.run(Call(host="api.example", retry=Retry()), send)
    """

    def __init__(self, hosts: Hosts, *, draw: Callable[[], float] = random.random) -> None:
        self.hosts = hosts
        self._draw = draw

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are on."""
        return self.hosts.clock

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
                else:
                    await step.waiter.future
            except BaseException as error:
                steps.throw(error)  # it gives back what it holds, and raises the same
                raise

    def stats(self) -> Stats:
        """Return what is going on."""
        return self.hosts.stats()

    def close(self) -> None:
        """Refuse everybody who waits or comes; who runs may finish."""
        self.hosts.close()
