"""AsyncEngine: drives calls as tasks of an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from comity.engine.call import Aside, Call, Exchange, Settled, Slot
from comity.engine.conversation import Conversation, converse
from comity.engine.engine import Engine
from comity.engine.held import Held, Opened

T = TypeVar("T")


class AsyncEngine(Engine):
    """Drives calls as tasks, in any number of event loops.

    Example:
        engine = AsyncEngine(Hosts(Policy(rate="50/5s")))
        settled = await engine.run(Call(host="api.example", retry=Retry()), send)
    """

    def run(self, call: Call, send: Callable[[Slot], Awaitable[Exchange[T]]]) -> Coroutine[Any, Any, Settled[T]]:
        """Send, and send again as the policy says, until the call is settled.

        Args:
            call: the request.
            send: makes one wire attempt and returns what it came to; it raises only when it is cancelled.

        Returns:
            The last attempt's value or error, and all attempts; an HTTP error status is a result here.

        Raises:
            HostBlocked, QueueFull, QueueTimeout, ClientClosed, TimedOut: its turn did not come.
        """
        return cast("Coroutine[Any, Any, Settled[T]]", self.open(call, send))  # what only sends never stands

    async def open(
        self, call: Call, send: Callable[[Slot], Awaitable[Exchange[T] | Opened[T]]]
    ) -> Settled[T] | Held[T]:
        """Do what `run` does, but stop where `send` returns an answer whose body is still to be read.

        Returns:
            How the call was settled; or the call as it stands, its slot with it, until its `over` is told how that ended.
        """
        gate = self.hosts.gate(call.host, call.request)
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
                    got = await send(step)
                    if not isinstance(got, Exchange):
                        return Held(steps, got, step)
                    reply = got
                elif isinstance(step, Aside):
                    await step.until()
                else:
                    await step.waiter.future
            except BaseException as error:
                steps.throw(error)  # it gives back what it holds, and raises the same
                raise
