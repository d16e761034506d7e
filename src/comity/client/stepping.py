"""Stepping: coroutines that never suspend, run to their end without an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Generator
from typing import TypeVar

T = TypeVar("T")


def finish(awaitable: Awaitable[T]) -> T:
    """Run what never suspends to its end and return its result."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        value: T = end.value
        return value
    steps.close()
    raise RuntimeError("it waits for an event loop")


def iterate(items: AsyncGenerator[T, None], owner: object) -> Generator[T, None, None]:
    """Yield what an asynchronous generator that never suspends yields; `owner` lives as long."""
    try:
        while True:
            try:
                item = finish(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        finish(items.aclose())
        del owner
