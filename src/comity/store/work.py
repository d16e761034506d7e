"""Work: the calls that wait for a writer, whatever the database."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Work:
    """One call.

    Args:
        handler, argument: what to do.
        future: where the result goes; None when nobody waits.
        undo: what to do if its caller is gone by the time that it is done.
    """

    __slots__ = ("argument", "future", "handler", "undo")

    def __init__(
        self,
        handler: Callable[..., Any],
        argument: Any,
        future: asyncio.Future[Any] | None = None,
        undo: Callable[[Any], Work] | None = None,
    ) -> None:
        self.handler, self.argument, self.future, self.undo = handler, argument, future, undo


class BaseWriter(ABC):
    """What takes calls and carries them out together."""

    async def _do(self, handler: Callable[..., Any], argument: Any, undo: Callable[[T], Work] | None) -> T:
        """Have a call carried out; return its result when that is on the disk."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Work(handler, argument, future, undo))
        try:
            return await future
        except asyncio.CancelledError:
            # Done already, and the result is on its way to nobody; a future that was cancelled is seen to by `_tell`.
            if undo is not None and not future.cancelled() and future.exception() is None:
                self._put(undo(future.result()))
            raise

    @abstractmethod
    def _put(self, work: Work) -> None:
        """Let a call wait.

        Raises:
            StoreError: the writer is closed.
        """
