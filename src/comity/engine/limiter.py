"""Limiter: the gate for any callable, from any loop and any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import ParamSpec, TypeVar, cast, overload

from comity.engine.clock import MONOTONIC, Clock
from comity.engine.fork import restart_in_children
from comity.engine.gate import Gate
from comity.engine.mapping import each_result, reach
from comity.engine.permit import Permit
from comity.engine.stats import Stats
from comity.policy.limiter import HostLimiter
from comity.policy.naming import named_options, unusable
from comity.policy.options import Policy, RateGiven
from comity.policy.pause import NO_CAP
from comity.policy.units import Seconds

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


@named_options
class Limiter:
    """At most so many callables at a time, and no more starts than the rates allow.

    One Limiter serves any number of event loops and threads together. First come, first served inside a priority.

    Args:
        concurrency: how many may run at once; None: no limit.
        rate: "50/5s", a `Rate`, or several that hold together.
        min_gap: the least time between two starts, seconds or text.
        max_queue: how many may wait.
        queue_timeout: the longest wait, seconds or text.
        ageing: after so long a wait a priority counts one step more urgent; None keeps priorities strict.
        clock: what time it is; for tests.

    Raises:
        OptionsError: a value cannot be used.

    Example:
        limiter = Limiter(5, rate="100/min")
        async with limiter:  # or, in a thread: with limiter:
            ...
        await limiter.run(fetch, "https://api.example/1")
    """

    def __init__(
        self,
        concurrency: int | None = 10,
        *,
        rate: RateGiven = None,
        min_gap: Seconds | None = None,
        max_queue: int = 100_000,
        queue_timeout: Seconds | None = None,
        ageing: Seconds | None = 60.0,
        clock: Clock = MONOTONIC,
    ) -> None:
        if isinstance(concurrency, str):
            raise unusable("concurrency", concurrency, "a whole number", f"for a rate say rate={concurrency!r}")
        self.policy = Policy(
            concurrency=concurrency,
            rate=rate,
            min_gap=min_gap,
            max_queue=max_queue,
            queue_timeout=queue_timeout,
            ageing=ageing,
        )
        self._clock, self._now = clock, clock.now
        self._closed = False
        self._inherited = 0
        """Entries of before a fork that this process may still leave; they hold nothing here."""
        self._begin()
        restart_in_children(self)

    def restart(self) -> None:
        """Begin anew, in a child process."""
        self._inherited += self._core.running
        # A permit of before may still be left, and nobody here would unlock the old lock.
        self._gate.lock = threading.Lock()
        self._begin()

    # The four methods below are plain functions with a short cut: an uncontended `async with` costs no coroutine.

    def __aenter__(self) -> Awaitable[None]:
        with self._lock:
            if self._core.take(self._now()):
                return _READY
        return self._permit().enter_loop()

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[None]:
        core = self._core
        if kind is not GeneratorExit:
            with self._lock:
                if core.quick is not None and core.running > 0 and not core.queued:
                    core.running -= 1
                    return _READY
        self._give_back(kind)
        return _READY

    def __enter__(self) -> None:
        with self._lock:
            if self._core.take(self._now()):
                return
        self._permit().enter_thread()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        core = self._core
        if kind is not GeneratorExit:
            with self._lock:
                if core.quick is not None and core.running > 0 and not core.queued:
                    core.running -= 1
                    return
        self._give_back(kind)

    def acquire(
        self, *, priority: int = 5, cost: int | Mapping[str, int] = 1, timeout: Seconds | None = None
    ) -> Permit:
        """Return a permit to enter, `async with` or `with`, that can be told what it really cost.

        Args:
            priority: 0 (first) to 9.
            cost: in requests, or by budget ({"tokens": 1200}).
            timeout: the longest wait, seconds or text; `queue_timeout` if None.

        Raises:
            OptionsError: the priority or cost cannot be used; a cost over a limit could never start.

        Example:
            async with limiter.acquire(priority=0, cost={"tokens": 1200}) as permit:
                answer = await ask()
                permit.settle({"tokens": answer.usage})
        """
        return Permit(self._gate, priority, cost, self.policy.queue_timeout if timeout is None else timeout)

    @overload
    async def run(self, call: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run(self, call: Callable[P, Awaitable[R] | R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def run(self, call: Callable[P, Awaitable[R] | R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `call(*args, **kwargs)`, sync or async, when its turn comes, and return its result.

        Raises:
            QueueFull, QueueTimeout, ClientClosed: its turn did not come; it was not called.
        """
        async with self:
            result = call(*args, **kwargs)
            return await result if isawaitable(result) else result

    def call(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `call(*args, **kwargs)` when its turn comes, blocking this thread, and return its result.

        Raises:
            QueueFull, QueueTimeout, ClientClosed: its turn did not come; it was not called.
        """
        with self:
            return call(*args, **kwargs)

    @overload
    def map(
        self, call: Callable[[T], Awaitable[R]], items: Iterable[T] | AsyncIterable[T]
    ) -> AsyncGenerator[R, None]: ...
    @overload
    def map(self, call: Callable[[T], R], items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[R, None]: ...
    async def map(
        self, call: Callable[[T], Awaitable[R] | R], items: Iterable[T] | AsyncIterable[T]
    ) -> AsyncGenerator[R, None]:
        """Call `call(item)` for every item and yield the results in the items' order, with bounded memory.

        A slow call does not hold back others, up to 8 results per slot ahead of it. An error is raised in its place;
        leaving the loop, by error or `break` (with `contextlib.aclosing`), cancels what is under way.

        Args:
            call: sync or async.
            items: sync or async; read up to so far ahead, and no further.
        """
        run = each_result(partial(self.run, call), items, reach([self.policy]))
        async with aclosing(run) as results:
            async for result in results:
                yield result

    def stats(self) -> Stats:
        """Return {queued, running, concurrency} at this moment."""
        with self._lock:
            core = self._core
            return Stats(queued=core.queued, running=core.running, concurrency=None if core.cap == NO_CAP else core.cap)

    def close(self) -> None:
        """Refuse everybody who waits or comes with ClientClosed; who runs may finish."""
        self._closed = True
        self._gate.close()

    def _begin(self) -> None:
        self._core = HostLimiter(self.policy, self._now(), name="limiter")
        self._lock = threading.Lock()
        self._gate = Gate(self._core, self._clock, self._lock)
        if self._closed:
            self._core.close()

    def _give_back(self, kind: type[BaseException] | None) -> None:
        # A GeneratorExit may mean that a forgotten coroutine is being destroyed.
        change = self._gate.change_unwaiting if kind is GeneratorExit else self._gate.change
        change(self._leave)

    def _leave(self, now: int) -> None:
        if self._core.running > 0:
            self._core.give_back(now)
        elif self._inherited > 0:
            self._inherited -= 1
        else:
            raise RuntimeError("this limiter was left more often than it was entered")

    def _permit(self) -> Permit:
        return Permit(self._gate, 5, 1, self.policy.queue_timeout)


class _NoLoop:
    """What a future that is done from the start needs of a loop."""

    @staticmethod
    def get_debug() -> bool:
        return False


def _ready() -> Awaitable[None]:
    """Return an awaitable that is done: a finished future never looks at its loop, and costs no coroutine."""
    future: asyncio.Future[None] = asyncio.Future(loop=cast("asyncio.AbstractEventLoop", _NoLoop()))
    future.set_result(None)
    return future


_READY = _ready()
