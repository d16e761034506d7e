"""ThreadEngine: drives calls in the threads that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from comity.engine.call import Aside, Call, Exchange, Settled, Slot
from comity.engine.conversation import Conversation, converse
from comity.engine.engine import Engine
from comity.engine.held import Held, Opened

T = TypeVar("T")


class ThreadEngine(Engine):
    """Drives calls in the threads that make them, any number of them; the same rules as `AsyncEngine`."""

    def run(self, call: Call, send: Callable[[Slot], Exchange[T]]) -> Settled[T]:
        """Send, and send again as the policy says, until the call is settled; blocks this thread meanwhile.

        Args:
            call: the request.
            send: makes one wire attempt and returns what it came to.

        Returns:
            The last attempt's value or error, and all attempts; an HTTP error status is a result here.

        Raises:
            HostBlocked, QueueFull, QueueTimeout, ClientClosed, TimedOut: its turn did not come.
        """
        settled = self.open(call, send)
        assert isinstance(settled, Settled)
        return settled

    def open(self, call: Call, send: Callable[[Slot], Exchange[T] | Opened[T]]) -> Settled[T] | Held[T]:
        """Do what `run` does, but stop where `send` returns an answer whose body is still to be read."""
        gate = self.hosts.gate(call.host, call.request)
        steps: Conversation[T] = converse(call, gate, gate.enter_thread, self._draw, self.hosts.observe)
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
                    got = send(step)
                    if not isinstance(got, Exchange):
                        return Held(steps, got, step)
                    reply = got
                elif isinstance(step, Aside):
                    self.stand_aside(step)
                else:
                    gate.wait_thread(step)
            except BaseException as error:
                steps.throw(error)  # it gives back what it holds, and raises the same
                raise

    def stand_aside(self, step: Aside) -> None:
        """Get what the call needs before it may be sent; an engine that has an event loop at hand can."""
        raise TypeError(f"a thread cannot await what the call needs ({type(step).__name__})")
