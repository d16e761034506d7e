"""Waiting for something to happen at the upstream, so that no test has to sleep and hope."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator


class Watchers:
    """Those who wait for a condition, from any loop or thread."""

    def __init__(self) -> None:
        self._watchers: tuple[_Watcher, ...] = ()
        self._lock = threading.Lock()

    def look(self) -> None:
        """Ask every condition once; called by the server after each change."""
        for watcher in self._watchers:
            watcher.look()

    async def until(self, reached: Callable[[], bool], within: float) -> None:
        """Wait on the running loop until `reached()` holds, at most `within` seconds."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        with self._watch(reached, lambda: _wake(loop, done)) as watcher:
            async with asyncio.timeout(within):
                await done.wait()
            watcher.check()

    def wait_until(self, reached: Callable[[], bool], within: float) -> None:
        """Wait in this thread until `reached()` holds, at most `within` seconds."""
        done = threading.Event()
        with self._watch(reached, done.set) as watcher:
            if not done.wait(within):
                raise TimeoutError(f"not reached within {within} s")
            watcher.check()

    @contextlib.contextmanager
    def _watch(self, reached: Callable[[], bool], wake: Callable[[], None]) -> Iterator[_Watcher]:
        watcher = _Watcher(reached, wake)
        with self._lock:
            self._watchers = (*self._watchers, watcher)
        try:
            # After it is on the list, so that nothing can happen in between unseen.
            watcher.look()
            yield watcher
        finally:
            with self._lock:
                self._watchers = tuple(other for other in self._watchers if other is not watcher)


class _Watcher:
    __slots__ = ("_error", "_reached", "_wake")

    def __init__(self, reached: Callable[[], bool], wake: Callable[[], None]) -> None:
        self._reached = reached
        self._wake = wake
        self._error: Exception | None = None

    def look(self) -> None:
        try:
            reached = self._reached()
        except Exception as error:  # noqa: BLE001 - it belongs to the one who waits, not to the connection that asks
            self._error = error
            reached = True
        if reached:
            self._wake()

    def check(self) -> None:
        if self._error is not None:
            raise self._error


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    # The waiting loop may have been closed meanwhile; then nobody waits there any more.
    if not loop.is_closed():
        loop.call_soon_threadsafe(done.set)
