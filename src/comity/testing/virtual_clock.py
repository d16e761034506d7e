"""VirtualClock: time that passes only when everybody waits, so that an hour of waiting is tested in a millisecond.

It stands in for the engine's clock. `run` drives a coroutine on an event loop whose time is this clock's, `run_threads`
drives functions in threads of their own, which may `run` loops in turn. When all of them wait, time moves on to the next
moment at which something happens. When nothing ever would, that is an error and not a hang.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from comity.policy.units import NS, Seconds, required, seconds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_700_000_000 * NS
"""The time of day at which a virtual clock starts, ns since the epoch."""


class VirtualClock:
    """A clock that tests move.

    Example:
        clock = VirtualClock()
        limiter = Limiter(rate="1/h", clock=clock)
        clock.run(use(limiter))  # takes no time, whatever it waits
    """

    def __init__(self) -> None:
        self._now = NS
        self._wall_offset = EPOCH - self._now
        self._change = threading.Condition()
        self._threads = 0
        self._waiting: list[tuple[VirtualSignal, int | None]] = []
        self._stuck = False

    def now(self) -> int:
        """Return the virtual monotonic time, ns."""
        return self._now

    def wall(self) -> int:
        """Return the virtual time of day, ns since the epoch."""
        return self._now + self._wall_offset

    def advance(self, by: Seconds) -> None:
        """Let time pass, in seconds or text; who waits in a thread until then wakes up."""
        self.move_to(self._now + seconds(required(by, "by")))

    def move_to(self, at: int) -> None:
        """Let time pass until `at`, ns; it never goes back."""
        with self._change:
            self._now = max(self._now, at)
            self._change.notify_all()

    def set_wall(self, by: float) -> None:
        """Set the time of day by so many seconds, forward or back; monotonic time does not notice."""
        self._wall_offset += int(by * NS)

    def signal(self) -> VirtualSignal:
        """Return a new signal; waiting for it takes virtual time."""
        return VirtualSignal(self)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on an event loop of this clock and return its result.

        Time does not wait for threads that are not started by `run_threads`, nor for sockets.

        Raises:
            RuntimeError: everything waits and nothing would ever happen.
        """
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(self)) as runner:
            return runner.run(main)

    def run_threads(self, *functions: Callable[[], object]) -> list[Any]:
        """Run each function in a thread of its own and return their results; the first error is raised.

        Raises:
            RuntimeError: all of them wait and nothing would ever wake one.
        """
        results: list[Any] = [None] * len(functions)
        errors: list[BaseException] = []

        def participate(position: int, function: Callable[[], object]) -> None:
            try:
                results[position] = function()
            except BaseException as error:  # noqa: BLE001 - raised below, in the thread that called
                errors.append(error)
            finally:
                with self._change:
                    self._threads -= 1
                    self._move_on()

        self._threads, self._stuck = len(functions), False
        threads = [threading.Thread(target=participate, args=pair) for pair in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def _wait(self, signal: VirtualSignal, until: int | None) -> None:
        entry = (signal, until)
        with self._change:
            self._waiting.append(entry)
            try:
                self._move_on()
                self._change.wait_for(lambda: self._stuck or self._due(entry))
                if not self._due(entry):
                    raise RuntimeError("everybody waits and nothing would ever happen")
            finally:
                self._waiting.remove(entry)
                self._stuck = self._stuck and bool(self._waiting)

    def _due(self, entry: tuple[VirtualSignal, int | None]) -> bool:
        signal, until = entry
        return signal.is_set or (until is not None and until <= self._now)

    def _move_on(self) -> None:
        """Move time to the next moment if everybody waits for it."""
        if not self._waiting or len(self._waiting) < self._threads or any(map(self._due, self._waiting)):
            return
        moments = [until for _, until in self._waiting if until is not None]
        self._stuck = not moments
        self._now = min(moments, default=self._now)
        self._change.notify_all()

    def _notify(self) -> None:
        with self._change:
            self._change.notify_all()


class VirtualSignal:
    """What one thread waits on, in virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.is_set = False

    def set(self) -> None:
        """Wake the thread that waits, or that will wait next."""
        self.is_set = True
        self._clock._notify()  # noqa: SLF001 - the two are one

    def clear(self) -> None:
        """Forget that it was set."""
        self.is_set = False

    def wait(self, until: int | None) -> None:
        """Block this thread until it is set or `until` (ns, None: no limit) has come.

        Raises:
            RuntimeError: every thread waits and nothing would ever wake one.
        """
        self._clock._wait(self, until)  # noqa: SLF001 - the two are one


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is a VirtualClock's."""

    def __init__(self, clock: VirtualClock) -> None:
        self._called = clock.signal()
        super().__init__(_VirtualSelector(clock, self._called))
        self._clock = clock

    def time(self) -> float:
        """Return the loop's time, seconds."""
        return self._clock.now() / NS

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback(*args)` from another thread, and end the wait in virtual time too."""
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self._called.set()
        return handle


class _VirtualSelector(selectors.SelectSelector):
    """A selector that lets virtual time pass instead of waiting."""

    def __init__(self, clock: VirtualClock, called: VirtualSignal) -> None:
        super().__init__()
        self._clock, self._called = clock, called

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._called.clear()
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        self._called.wait(None if timeout is None else self._clock.now() + max(1, seconds(timeout)))
        return super().select(0)
