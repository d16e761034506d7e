"""Blocking: the parts of a client that stands in its caller's thread and has only its wire in an event loop elsewhere.

The coroutines of `AsyncClient` are the rules of a call, and are used as they are. Whatever they wait for is made to block
the thread instead: turns as `ThreadEngine` does, the wire and tokens by a `LoopThread`. So they never suspend, and
`finish` of `stepping` runs one to its end without an event loop, whether or not one runs in the same thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from queue import SimpleQueue
from typing import Any, TypeVar

from comity.client.loop_thread import Job, LoopThread
from comity.client.stepping import finish
from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Aside, Call, Exchange, Settled, Slot
from comity.engine.held import Held, Opened
from comity.engine.hosts import Hosts
from comity.engine.thread_engine import ThreadEngine

T = TypeVar("T")
R = TypeVar("R")


async def each_result(
    thread: LoopThread,
    call: Callable[[T], Coroutine[Any, Any, R]],
    items: Iterable[T] | AsyncIterable[T],
    ahead: int,
    *,
    ordered: bool = True,
) -> AsyncGenerator[R, None]:
    """Do what `engine.mapping.each_result` does, the calls in a thread's loop, the items read where the results are taken."""
    left: dict[Job[R], None] = {}
    ended: SimpleQueue[Job[R]] = SimpleQueue()
    next_item, failure = _reader(thread, items), None
    try:
        while failure is None:
            try:
                item = await next_item()
            except Exception as error:  # noqa: BLE001 - raised after the results of the items before
                failure = error
                break
            job = Job(call(item), None if ordered else ended.put)
            thread.start(job)
            left[job] = None
            while len(left) >= ahead or (left and (next(iter(left)).over if ordered else not ended.empty())):
                yield _taken(left, ended, ordered=ordered)
        while left:
            yield _taken(left, ended, ordered=ordered)
        if not isinstance(failure, StopAsyncIteration):
            raise failure
    finally:
        for job in left:
            thread.cancel(job)
        for job in left:
            job.wait()


def _reader(thread: LoopThread, items: Iterable[T] | AsyncIterable[T]) -> Callable[[], Awaitable[T]]:
    """Return a function that returns the next item, or raises StopAsyncIteration."""
    if isinstance(items, AsyncIterable):
        far = aiter(items)

        async def next_far() -> T:
            return await anext(far)

        return lambda: thread.reach(next_far())
    near = iter(items)

    async def next_near() -> T:
        for item in near:
            return item
        raise StopAsyncIteration

    return next_near


def _taken(left: dict[Job[R], None], ended: SimpleQueue[Job[R]], *, ordered: bool) -> R:
    job = next(iter(left)) if ordered else ended.get()
    result = job.result()
    del left[job]
    return result


class BlockingEngine(AsyncEngine):
    """Drives calls in the threads that make them, and those that are made in the loop as its tasks.

    Args:
        hosts: whose limits hold.
        thread: where the loop is.
    """

    def __init__(self, hosts: Hosts, thread: LoopThread) -> None:
        super().__init__(hosts)
        self._thread = thread
        self._in_thread = _InThread(hosts)

    async def open(
        self, call: Call, send: Callable[[Slot], Awaitable[Exchange[T] | Opened[T]]]
    ) -> Settled[T] | Held[T]:
        """Send, and send again as the policy says, until the call is settled or stands; see `AsyncEngine.open`."""
        if self._thread.here:
            return await super().open(call, send)
        return self._in_thread.open(call, lambda slot: finish(send(slot)))


class _InThread(ThreadEngine):
    """Drives calls in threads, with coroutines that never suspend."""

    def stand_aside(self, step: Aside) -> None:
        """Get what the call needs."""
        finish(step.until())
