"""Work: the calls that wait for a writer, whatever the database."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from comity.errors import StoreError

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

    def settle(self, result: Any) -> bool:
        """Give its caller the result, or raise it there; return whether the caller is still there. It waits on this loop."""
        assert self.future is not None
        if self.future.cancelled():
            return False
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)
        return True

    def undoing(self, result: Any) -> Work | None:
        """Return what undoes it, when its caller is gone; None where there is nothing to undo."""
        return None if self.undo is None or isinstance(result, Exception) else self.undo(result)


def by_handler(works: Sequence[Work]) -> dict[Callable[..., Any], list[int]]:
    """Return the places of works of each kind, to be carried out together: calls that wait together have no order."""
    kinds: defaultdict[Callable[..., Any], list[int]] = defaultdict(list)
    for place, work in enumerate(works):
        kinds[work.handler].append(place)
    return kinds


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
                with suppress(StoreError):  # closed: the lease runs out
                    self._put(undo(future.result()))
            raise

    @abstractmethod
    def _put(self, work: Work) -> None:
        """Let a call wait.

        Raises:
            StoreError: the writer is closed.
        """
