"""Underway: which sends of a client are under way, in any number of loops and threads, and who waits for their end.

Theory. There is no lock: a send may end in the destructor of a forgotten coroutine, which may run anywhere, also within
a step of this very object. Whoever ends the last send tells those who wait; whoever begins to wait first enters itself
and then looks whether a send is left. So of the two that meet, one at least sees the other.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from comity.engine.fork import restart_in_children


class Underway:
    """The sends of one client."""

    def __init__(self) -> None:
        self.restart()
        restart_in_children(self)

    def restart(self) -> None:
        """Begin anew, in a child process: what its parent sends never ends there."""
        self._sends: set[object] = set()
        self._waiting: list[asyncio.Future[None]] = []

    def begin(self, send: object) -> None:
        """Note a send; it is told from others by identity."""
        self._sends.add(send)

    def end(self, send: object) -> None:
        """Note that a send ended; one that was begun before a fork is none of the child's."""
        self._sends.discard(send)
        if self._waiting:
            self._tell()

    async def over(self) -> None:
        """Wait until no send is left."""
        if not self._sends:
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._tell()
        await waiting

    def _tell(self) -> None:
        """Wake who waits if no send is left."""
        while self._waiting and not self._sends:
            with suppress(IndexError):  # another thread took the last one
                waiting = self._waiting.pop()
                with suppress(RuntimeError):  # its loop is closed, so nobody waits any more
                    waiting.get_loop().call_soon_threadsafe(_finish, waiting)


def _finish(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
