"""Something that serves, run in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from typing import Any


class Background:
    """Runs an async context manager in a thread until told to stop.

    Args:
        serving: entered when the thread starts and left when it stops.
        name: of the thread.
    """

    def __init__(self, serving: AbstractAsyncContextManager[Any], name: str) -> None:
        self._serving = serving
        # A daemon: a server that somebody forgot to close must not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._settled = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def start(self) -> None:
        """Start and return when it serves; what its start raises is raised here."""
        self._thread.start()
        self._settled.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def stop(self) -> None:
        """Stop and return when the thread has ended."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that started or stops this one
            self._error = error
        finally:
            self._settled.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._serving:
            self._settled.set()
            await self._stop.wait()
