"""Held: a call that stands at an answer whose body is being read; it keeps its slot until that is over."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from comity.engine.call import Exchange, Settled, Slot
from comity.engine.conversation import Conversation

T = TypeVar("T")


class Opened(Protocol[T]):
    """An answer whose head came and whose body is still to be read."""

    @property
    def head(self) -> T:
        """The answer without its body."""
        ...

    @property
    def exchange(self) -> Exchange[T] | None:
        """What the attempt came to; None until it is over."""
        ...

    async def chunk(self) -> bytes:
        """Return the next bytes, decoded; b"" when the attempt is over, which `exchange` tells of."""
        ...

    async def read(self) -> Exchange[T]:
        """Read the whole body into the answer, up to what may be held, and return what the attempt came to."""
        ...

    async def abort(self) -> Exchange[T]:
        """End the attempt and its connection; it never suspends, so that a cancellation cannot skip it."""
        ...

    def drop(self) -> None:
        """End the connection a little later; for destructors, which may run in any thread and must not wait."""
        ...


class Held(Generic[T]):
    """A call that stands.

    Attributes:
        opened: the answer.
        slot: of the attempt that brought it.
    """

    __slots__ = ("_steps", "opened", "slot")

    def __init__(self, steps: Conversation[T], opened: Opened[T], slot: Slot) -> None:
        self._steps = steps
        self.opened, self.slot = opened, slot

    def over(self, exchange: Exchange[T]) -> Settled[T]:
        """Say what the attempt came to; the slot is given back. The head decided, so nothing follows."""
        try:
            self._steps.send(exchange)
        except StopIteration as end:
            settled: Settled[T] = end.value
            return settled
        self._steps.close()
        raise RuntimeError("an answer was handed out though another attempt follows")

    def drop(self) -> None:
        """Give everything back without a word; for destructors."""
        self._steps.close()
