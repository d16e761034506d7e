"""News: tells other processes that there are new events, and learns of theirs.

A NOTIFY inside the transactions themselves would let only one of them commit at a time (Postgres orders notifying commits by a
lock over the whole database), so it goes out behind them, on a connection of its own, one for all that came meanwhile. One
that is lost with its connection or its process is made up for by looking once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from comity.store.bell import Bell
from comity.store.postgres.connecting import Place
from comity.store.postgres.faults import DRIVER
from comity.store.postgres.reading import last_event

LOOK = 1.0
"""So often it is looked for events that nobody told of, s."""

PAUSE = 0.05
"""So long at least lies between two NOTIFYs, s."""


class News:
    """The news of one store.

    Args:
        place: where it is.
        bell: rung for every event, whoever wrote it.
    """

    def __init__(self, place: Place, bell: Bell) -> None:
        self._place, self.bell = place, bell
        self._wake = asyncio.Event()
        self._db: Any = None
        self._closed = False
        self._task = asyncio.create_task(self._run())

    def tell(self, last: int) -> None:
        """Ring for an event of this process, and let others know of it."""
        self._hear(last)
        self._wake.set()

    async def close(self) -> None:
        """End it; what is not told yet is found by others when they look."""
        self._closed = True
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._drop()

    async def _run(self) -> None:
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._wake.wait()
            told = self._wake.is_set()
            self._wake.clear()
            try:
                if told:
                    db = await self._connected()
                    await db.execute("SELECT pg_notify($1, $2)", self._place.channel, str(self.bell.last))
                    await asyncio.sleep(PAUSE)
                else:
                    self._hear(await last_event(await self._connected()))
            except DRIVER:
                # Without a connection nobody hears anything; those who call the store are told why.
                self._drop()

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.terminate()

    async def _connected(self) -> Any:
        if self._db is None or self._db.is_closed():
            self._db = await self._place.connect()
            # A lost NOTIFY is made up for, so nobody need wait until it is on a disk.
            await self._db.execute("SET synchronous_commit = off")
            await self._db.add_listener(self._place.channel, lambda *said: self._hear(int(said[3])))
        return self._db

    def _hear(self, last: int) -> None:
        if last > self.bell.last:
            self.bell.ring(last)
