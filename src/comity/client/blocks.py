"""Blocks: the streams whose blocks the caller stands in, which it cannot wait for, as only it can leave them.

Theory. The context of a task or thread remembers the blocks that were entered in it. Contexts are copied, into new tasks
and into what a pool of threads runs, so the place (the task, the thread) where a block was entered has to be the same too.
A stream that somebody else has read from may be ended by that one, and is waited for like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from weakref import ref

from comity.client.streamed import Body

_ENTERED: ContextVar[tuple[ref[Body], ...]] = ContextVar("comity_blocks", default=())


def enter(body: Body, client: object, where: Callable[[], object]) -> None:
    """Remember a block of a client that is entered here; `where` tells the place, as `task` does."""
    body.stand(client, where)
    _ENTERED.set((*(each for each in _ENTERED.get() if (known := each()) is not None and known.open), ref(body)))


async def end_own(client: object, place: object) -> None:
    """End the streams of a client whose blocks stand open at this place alone; who reads on in one is told why."""
    for each in _ENTERED.get():
        body = each()
        if body is not None and body.open and not body.shared and body.block == (client, place):
            await body.close("the client was closed within the block of this stream; leave the block first")


def task() -> object:
    """Return the place of who runs in an event loop: equal for the same task alone, which it does not keep alive."""
    running = asyncio.current_task()
    return object() if running is None else ref(running)
