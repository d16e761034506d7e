"""Aside: work that takes a while, in a thread beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """Run a function in a thread and return its result.

    A thread cannot be stopped, so a cancel waits for its end: what the function does is over when this is, and whoever
    cleans up behind it is alone.
    """
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait((running,))
            except asyncio.CancelledError:  # cancelled again; it is raised in the end
                continue
        if not running.cancelled():
            running.exception()  # seen: the cancel is what is raised
        raise
