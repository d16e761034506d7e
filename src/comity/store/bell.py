"""Bell: wakes those who wait for an event that is not there yet."""

from __future__ import annotations

import asyncio
import contextlib
from threading import Lock


class Bell:
    """Rung after a commit by whoever learns of it, from any thread; those who wait live on loops of their own.

    Args:
        last: the number of the last event.
    """

    def __init__(self, last: int) -> None:
        self._last = last
        self._lock = Lock()
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._last

    async def newer(self, after: int) -> int:
        """Return the number of the last event, as soon as that is after the number `after`."""
        future = asyncio.get_running_loop().create_future()
        entry = (after, future)
        with self._lock:
            if self._last > after:
                return self._last
            self._waiting.add(entry)
        try:
            await future
        finally:
            with self._lock:
                self._waiting.discard(entry)
        return self._last

    def ring(self, last: int) -> None:
        """Wake whoever waits for an event up to the number `last`."""
        with self._lock:
            self._last = last
            due = [future for after, future in self._waiting if after < last]
        for future in due:
            # A loop that was closed has nobody left to wake.
            with contextlib.suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_wake, future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
