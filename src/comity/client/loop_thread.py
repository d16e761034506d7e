"""LoopThread: an event loop in a thread of its own, for callers that have none, or whose loop must not be touched.

Theory. What is posted and the end of the loop pass through one lock, so whatever was accepted reaches the loop before its
stop. The end cancels what is left and every task that ends, however it does, releases its caller: nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from comity.engine.fork import restart_in_children
from comity.errors import ClientClosed

T = TypeVar("T")

Last = Callable[[], Coroutine[Any, Any, None]]
"""What is done at the end of a loop."""

_GLANCE = 0.05


class LoopThread:
    """Runs coroutines for any number of threads; the thread starts when the first comes, also again in a child process.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.restart()
        restart_in_children(self)

    def restart(self) -> None:
        """Begin anew, in a child process: its parent's thread is not there."""
        # Kept, so that nothing here takes the parent's sockets out of a selector that both share.
        self._parents = self._loop
        self._lock = threading.Lock()
        self._loop = None
        self._thread: threading.Thread | None = None
        self._last: Last | None = None

    @property
    def here(self) -> bool:
        """Whether the caller runs in this thread."""
        return self._thread is not None and self._thread.ident == threading.get_ident()

    def check_elsewhere(self) -> None:
        """Refuse to block this thread for itself.

        Raises:
            RuntimeError: the caller runs in it.
        """
        if self.here:
            raise RuntimeError("a function that the client calls in its own thread cannot wait for the same client")

    async def reach(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop: awaited there, blocking elsewhere, so that it never suspends its caller."""
        return await coroutine if self.here else self.run(coroutine)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result; blocks this thread meanwhile.

        What interrupts the wait, such as Ctrl-C, cancels the coroutine and is raised when that has ended.

        Raises:
            ClientClosed: the loop has ended, or ended meanwhile.
            RuntimeError: this is the loop's own thread, which would wait for itself.
        """
        job = Job(coroutine)
        try:
            self.start(job)
            return job.result()
        except BaseException:
            self.cancel(job)
            job.wait()
            raise

    def start(self, job: Job[Any]) -> None:
        """Start a job in the loop.

        Raises:
            ClientClosed, RuntimeError: it was not started; as for `run`.
        """
        try:
            self.check_elsewhere()
            self._post(job)
        except BaseException:
            if not job.posted:
                job.drop()
            raise

    def cancel(self, job: Job[Any]) -> None:
        """Cancel a job; it is over a little later."""
        with self._lock:
            if job.posted and not job.over and self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(job.cancel)

    def close(self, last: Last | None = None) -> None:
        """End the loop: cancel what is left in it, and return when the thread has ended. It may be called again.

        Args:
            last: what still has to be done in the loop, behind all that.
        """
        with self._lock:
            loop, thread, first = self._loop, self._thread, not self._closed
            self._closed = True
            if loop is not None and first:
                self._last = last
                loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join()

    def abandon(self, last: Last) -> None:
        """End the loop after a last coroutine, without waiting: this may run in a destructor, in any thread."""
        loop = self._loop
        if loop is not None and not self._closed:
            self._closed = True
            loop.call_soon_threadsafe(_end, loop, last)

    def _post(self, job: Job[Any]) -> None:
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed")
            if self._loop is None:
                self._start()
            assert self._loop is not None
            job.posted = True
            self._loop.call_soon_threadsafe(job.begin, self._loop)

    def _start(self) -> None:
        loop = asyncio.new_event_loop()
        # A daemon: a client that somebody forgot to close must not keep the interpreter from ending.
        thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._loop, self._thread = loop, thread

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # it cancels what is left, and closes the loop
            runner.get_loop().run_forever()
            if self._last is not None:
                runner.run(_wind_up(self._last))


class Job(Generic[T]):
    """A coroutine that a thread waits for.

    Args:
        coroutine: runs in a copy of this thread's context.
        ended: is told, in the loop, when it is over.
    """

    __slots__ = ("_context", "_coroutine", "_ended", "_over", "_task", "over", "posted")

    def __init__(self, coroutine: Coroutine[Any, Any, T], ended: Callable[[Job[T]], object] | None = None) -> None:
        self._coroutine = coroutine
        self._context = copy_context()
        self._ended = ended
        self._over = threading.Lock()
        self._over.acquire()
        self._task: asyncio.Task[T] | None = None
        self.posted = self.over = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start; in the loop."""
        self._task = loop.create_task(self._coroutine, context=self._context)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancel; in the loop."""
        if self._task is not None:
            self._task.cancel()

    def drop(self) -> None:
        """Forget the coroutine, which never ran."""
        self._coroutine.close()

    def wait(self) -> None:
        """Return when it is over, if it was started; also after a wait that was interrupted at its very end."""
        while self.posted and not self.over:
            self._over.acquire(timeout=_GLANCE)

    def result(self) -> T:
        """Wait for it and return its result."""
        self._over.acquire()
        assert self._task is not None
        if self._task.cancelled():
            raise ClientClosed("the client was closed meanwhile")
        return self._task.result()

    def _end(self, _: asyncio.Task[T]) -> None:
        self.over = True
        self._over.release()
        if self._ended is not None:
            self._ended(self)


async def _wind_up(last: Last) -> None:
    """Cancel what is left, then do the last thing."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for each in left:
        each.cancel()
    if left:
        await asyncio.wait(left)
    await last()


def _end(loop: asyncio.AbstractEventLoop, last: Last) -> None:
    loop.create_task(last()).add_done_callback(lambda _: loop.stop())
