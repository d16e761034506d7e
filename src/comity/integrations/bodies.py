"""Bodies: the answers' bodies while they are read, for loops and for threads; the call stands at one until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any

from comity.engine.call import Exchange, Slot
from comity.engine.held import Held
from comity.integrations.course import Course, Sending
from comity.integrations.spent import Spent

_DRAINED = 64 * 1024
_DRAIN_FOR = 1.0


class Body:
    """What both kinds have.

    Args:
        course: the request's.
        sending: the send that brought the answer.
        slot: its right to send.
        answer: the answer, as the wire gave it.

    A body that is forgotten gives its slot back.
    """

    def __init__(self, course: Course, sending: Sending, slot: Slot, answer: Any) -> None:
        self.answer, self.slot = answer, slot
        self.held: Held[Any] | None = None
        self._course, self._sending = course, sending
        self._failed = course.family.failed
        usage = slot.usage
        self._spent = None if usage is None else Spent(course.family.library, answer, usage, slot)

    def _broke(self, error: Exception) -> Exception | None:
        """Note that the body broke, and return the cause to raise `error` from."""
        exchange = self._sending.failed(error)
        self._over(exchange)
        return exchange.error

    def _check(self) -> None:
        if self._sending.limits.over:
            raise self._sending.overdue()

    def _whole(self) -> None:
        """Note that the body came to its end."""
        try:
            if self._spent is not None and self.held is not None:
                self._spent.end()
        finally:
            self._over(self._sending.ended())

    def _over(self, exchange: Exchange[Any]) -> None:
        held, self.held = self.held, None
        if held is not None:
            self._course.over(held, exchange)

    def __del__(self) -> None:
        if self.held is not None:
            self.held.drop()


class AsyncBody(Body):
    """A body that is read in an event loop."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self.answer.stream)
        try:
            while True:
                self._check()
                limit = asyncio.timeout(self._sending.limits.left())
                try:
                    async with limit:
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    if limit.expired():
                        raise self._sending.overdue() from None
                    raise
                if self._spent is not None:
                    self._spent.add(piece)
                yield piece
        except self._failed as error:
            raise error from self._broke(error)
        self._whole()

    async def aclose(self) -> None:
        """Close the answer; the slot is free from then on."""
        try:
            await self.answer.aclose()
        finally:
            self._over(self._sending.ended())


class BlockingBody(Body):
    """A body that is read in a thread."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            self._check()
            for piece in self.answer.stream:
                if self._spent is not None:
                    self._spent.add(piece)
                yield piece
                self._check()
        except self._failed as error:
            raise error from self._broke(error)
        self._whole()

    def close(self) -> None:
        """Close the answer; the slot is free from then on."""
        try:
            self.answer.close()
        finally:
            self._over(self._sending.ended())


class Rest:
    """What is left of an answer that nobody wants: read if it is short, so that its connection can be used again.

    Args:
        sending: the send that brought it.
    """

    def __init__(self, sending: Sending) -> None:
        sending.limits.draining(_DRAIN_FOR)
        self._left, self._until = _DRAINED, monotonic() + _DRAIN_FOR

    def enough(self, piece: bytes) -> bool:
        """Return whether to leave it at that."""
        self._left -= len(piece)
        return self._left < 0 or monotonic() > self._until
