"""Stack: all of the service over one store, begun and left in the one order in which nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from comity.service.service import Service
from comity.web.app import create_app
from comity.web.server import serving
from comity.web.shared import Shared


class _Part(Protocol):
    def over(self) -> Coroutine[Any, Any, None]: ...


class Stack:
    """A service that runs.

    Args:
        url: where its API is.
        parts: what it is made of.
    """

    def __init__(self, url: str, parts: Sequence[_Part]) -> None:
        self.url, self._parts = url, parts

    async def over(self) -> None:
        """Return when a part of it ended for good, which none does by itself.

        Raises:
            Exception: what that part failed with.
        """
        tasks = [asyncio.create_task(part.over()) for part in self._parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def stacked(
    shared: Shared,
    service: Service | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    hurried: asyncio.Event | None = None,
) -> AsyncIterator[Stack]:
    """Serve the API over an open store for the length of a block, and work on it.

    The API is left first: what it took in meanwhile is on the disk, and the worker has time for what is on the way. The feed is
    left last, as answers are made of it until the end. The store stays open.

    Args:
        shared: what the API's handlers share; its feed is opened here.
        service: what works on the same store; None for an API alone.
        host: an address of this machine.
        port: where; 0 takes a free one.
        hurried: cuts the end short, when it is set.

    Raises:
        CannotListen: on this address.
        StoreError: it cannot be read.
    """
    async with shared.feed as feed, AsyncExitStack() as opened:
        if service is not None:
            await opened.enter_async_context(service)
        app = create_app(shared)
        where = serving(app, host=host, port=port, before_end=feed.stop, hurried=hurried)
        served = await opened.enter_async_context(where)
        yield Stack(served.url, [feed, served] if service is None else [feed, served, service])
