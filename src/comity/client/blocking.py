"""Blocking: the parts of a client that stands in its caller's thread and has only its wire in an event loop elsewhere.

The coroutines of `AsyncClient` are the rules of a call, and are used as they are. Whatever they wait for is made to block
the thread instead: turns as `ThreadEngine` does, the wire and tokens by a `LoopThread`. So they never suspend, and
`finish` runs one to its end without an event loop, whether or not one runs in the same thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Generator, Iterable
from queue import SimpleQueue
from typing import Any, TypeVar

from comity.client.auth import Auth, Renewing
from comity.client.headers import Given
from comity.client.loop_thread import Job, LoopThread
from comity.client.opened import opening
from comity.client.request import Request
from comity.client.response import Response
from comity.client.transport import Transport
from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Aside, Call, Exchange, Settled, Slot
from comity.engine.clock import Clock
from comity.engine.held import Held, Opened
from comity.engine.hosts import Hosts
from comity.engine.thread_engine import ThreadEngine
from comity.errors import BadResponse, ClientClosed, ConnectionLost
from comity.policy.outcome import Outcome
from comity.policy.timeouts import Timeout

T = TypeVar("T")
R = TypeVar("R")


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


class FarTransport:
    """A transport in another thread's loop.

    Args:
        transport: what sends.
        thread: where the loop is.
    """

    def __init__(self, transport: Transport, thread: LoopThread) -> None:
        self._transport, self._thread = transport, thread
        self.extensions = getattr(transport, "extensions", None)

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:
        """Make one wire attempt; see `Transport.send`."""
        try:
            return await self._thread.reach(self._transport.send(request, limits, slot))
        except ClientClosed:
            if not slot.begun:
                raise
            return _cut(request)

    async def open(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response] | Opened[Response]:
        """Make one wire attempt up to the answer's head; see `Opens.open`."""
        transport = opening(self._transport)
        opened: list[Exchange[Response] | Opened[Response]] = []

        async def far() -> None:
            opened.append(await transport.open(request, limits, slot))

        try:
            await self._thread.reach(far())
        except ClientClosed:
            if not slot.begun:
                raise
            return _cut(request)
        except BaseException:
            for each in opened:  # the wait was interrupted when it was there already
                if not isinstance(each, Exchange):
                    await self._thread.reach(each.abort())
            raise
        return opened[0] if isinstance(opened[0], Exchange) else _FarOpened(opened[0], self._thread)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._thread.reach(self._transport.aclose())


class _FarOpened:
    """An answer that is read in another thread's loop."""

    def __init__(self, opened: Opened[Response], thread: LoopThread) -> None:
        self._opened, self._thread = opened, thread
        self._cut: Exchange[Response] | None = None
        self.head = opened.head

    @property
    def exchange(self) -> Exchange[Response] | None:
        return self._cut or self._opened.exchange

    async def chunk(self) -> bytes:
        try:
            return await self._thread.reach(self._opened.chunk())
        except ClientClosed:
            self._cut = _cut_within(self.head)
            return b""

    async def read(self) -> Exchange[Response]:
        return await self._ended(self._opened.read())

    async def abort(self) -> Exchange[Response]:
        return await self._ended(self._opened.abort())

    async def _ended(self, end: Coroutine[Any, Any, Exchange[Response]]) -> Exchange[Response]:
        try:
            return await self._thread.reach(end)
        except ClientClosed:
            return self._opened.exchange or _cut_within(self.head)

    def drop(self) -> None:
        self._opened.drop()


def _cut(request: Request) -> Exchange[Response]:
    """Return what an attempt came to whose loop ended under it, as at a `close` that was interrupted."""
    text = f"{request.line}: the client was closed before the answer; the request may have been sent, its outcome is unknown"
    lost = ConnectionLost(text, sent="maybe", request=request)
    return Exchange(outcome=Outcome(failure="lost", sent="maybe"), error=lost)


def _cut_within(head: Response) -> Exchange[Response]:
    error = BadResponse(f"{head.line}; the client was closed within the answer", request=head.request)
    error.response = head.masked()
    return Exchange(outcome=Outcome(failure="truncated", sent="yes"), error=error)


def far_auth(auth: Auth, thread: LoopThread) -> Auth:
    """Return auth whose functions, perhaps coroutines, are called in another thread's loop."""
    if isinstance(auth, (_FarAuth, _FarRenewing)):
        return auth
    return _FarRenewing(auth, thread) if isinstance(auth, Renewing) else _FarAuth(auth, thread)


class _FarAuth(Auth):
    """Auth in another thread's loop."""

    def __init__(self, auth: Auth, thread: LoopThread) -> None:
        self._auth, self._thread = auth, thread

    async def headers(self, request: Request) -> Given:
        return await self._thread.reach(self._auth.headers(request))


class _FarRenewing(Renewing):
    """Auth that is fetched in another thread's loop."""

    def __init__(self, auth: Renewing, thread: LoopThread) -> None:
        self._auth, self._thread = auth, thread

    async def headers(self, request: Request) -> Given:
        return await self._auth.headers(request)  # what was fetched is there: nothing is waited for

    def stale(self, clock: Clock) -> bool:
        return self._auth.stale(clock)

    async def renew(self, clock: Clock, refused: Given) -> str:
        return await self._thread.reach(self._auth.renew(clock, refused))

    async def renew_within(self, left: float | None, clock: Clock, refused: Given) -> str:
        return await self._thread.reach(self._auth.renew_within(left, clock, refused))
