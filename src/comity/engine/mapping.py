"""Mapping: calls for many items at a time, with bounded memory; whoever calls keeps the limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

from comity.policy.options import Policy

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 8
"""How many items per slot are under way or have a result that nobody took yet."""


def reach(policies: Iterable[Policy]) -> int:
    """Return how many items to have in hand: as many as the widest policy needs, and no more than it lets wait."""
    widths = ((policy.concurrency or 100, policy.max_queue) for policy in policies)
    return max(min(AHEAD * slots, slots + queue) for slots, queue in widths)


async def each_result(
    call: Callable[[T], Coroutine[Any, Any, R]],
    items: Iterable[T] | AsyncIterable[T],
    ahead: int,
    *,
    ordered: bool = True,
) -> AsyncGenerator[R, None]:
    """Call `call(item)` for every item and yield the results.

    An error is raised in its place; an error of reading the items comes after the results of those before. Leaving the
    loop, by error or `break`, cancels what is under way.

    Args:
        call: makes a coroutine.
        items: sync or async; one more is read when a result is taken.
        ahead: how many items may be under way or have a result that was not taken.
        ordered: in the items' order, else as they are finished.
    """
    room = asyncio.Semaphore(ahead - 1)
    tasks: asyncio.Queue[asyncio.Task[R] | None] = asyncio.Queue()
    pending: set[asyncio.Task[Any]] = set()

    async def read() -> None:
        try:
            async with aclosing(_each(items)) as each:
                async for item in each:
                    task = asyncio.create_task(call(item))
                    pending.add(task)
                    if ordered:
                        tasks.put_nowait(task)
                    else:
                        task.add_done_callback(tasks.put_nowait)
                    await room.acquire()
        finally:
            tasks.put_nowait(None)

    reader, reading = asyncio.create_task(read()), True
    try:
        while reading or pending:
            task = await tasks.get()
            if task is None:
                reading = False
                continue
            result = await task
            pending.discard(task)
            room.release()
            yield result
        await reader  # raises what reading the items raised
    finally:
        rest = [reader, *pending]
        for left in rest:
            left.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


async def _each(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
