"""Stepping: run a coroutine and cancel its task, or forget it, at a chosen suspension."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


@types.coroutine
def cancelled_at(k: int, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run `coroutine` and cancel the running task when it is suspended for the k-th time."""
    step, argument, count = coroutine.send, None, 0
    while True:
        try:
            future = step(argument)
        except StopIteration as end:
            return end.value
        count += 1
        if count == k:
            asyncio.current_task().cancel()
        try:
            yield future
            step, argument = coroutine.send, None
        except BaseException as error:  # noqa: BLE001 - whatever comes in is passed on
            step, argument = coroutine.throw, error


async def settle(turns: int = 5) -> None:
    """Let everything run that is ready."""
    for _ in range(turns):
        await asyncio.sleep(0)
