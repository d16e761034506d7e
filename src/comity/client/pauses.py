"""Pauses: the waits between the requests of a series, which end when the client does."""

from __future__ import annotations

import asyncio

from comity.errors import ClientClosed


class Pauses:
    """Waits in any number of event loops."""

    def __init__(self) -> None:
        self._closed = False
        self._waiting: dict[asyncio.Future[None], None] = {}

    async def wait(self, seconds: float) -> None:
        """Wait.

        Raises:
            ClientClosed: the client was closed before that was over.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _end, ended)
        self._waiting[ended] = None
        if self._closed:  # looked at behind the entry: another thread may just be closing
            _refuse(ended)
        try:
            await ended
        finally:
            timer.cancel()
            del self._waiting[ended]

    def close(self) -> None:
        """End all of them, also those that come."""
        self._closed = True
        for ended in tuple(self._waiting):
            loop = ended.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_refuse, ended)


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _refuse(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_exception(ClientClosed("the client was closed before the next request; it was not sent"))
