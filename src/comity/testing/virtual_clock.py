"""VirtualClock: time that passes only when everybody waits, so that an hour of waiting is tested in a millisecond.

It stands in for the engine's clock. `run` drives a coroutine on an event loop whose time is this clock's, `run_threads`
drives functions in threads of their own; in both, when nothing can happen at the present moment, time moves on to the next
moment at which something does. When nothing ever would, that is an error and not a hang.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from comity.engine.clock import Wakeable
from comity.policy.units import NS, Seconds, required, seconds

T = TypeVar("T")

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
        self._waiting: list[tuple[VirtualEvent, int | None]] = []
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

    def event(self) -> VirtualEvent:
        """Return an event that `wait` understands."""
        return VirtualEvent(self._change)

    def wait(self, event: Wakeable, until: int | None) -> None:
        """Block this thread until `event` is set or `until` (ns) has come.

        Raises:
            RuntimeError: every thread waits and nothing would ever wake one.
        """
        if not isinstance(event, VirtualEvent):
            raise TypeError("a VirtualClock waits for its own events: use clock.event()")
        entry = (event, until)
        with self._change:
            self._waiting.append(entry)
            try:
                while not self._due(entry):
                    if not self._move_on():
                        self._change.wait()
            finally:
                self._waiting.remove(entry)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on an event loop of this clock and return its result.

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
                    self._change.notify_all()

        self._threads += len(functions)
        threads = [threading.Thread(target=participate, args=pair) for pair in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results

    def _due(self, entry: tuple[VirtualEvent, int | None]) -> bool:
        event, until = entry
        if self._stuck:
            raise RuntimeError("every thread waits and nothing would ever wake one")
        return event.is_set() or (until is not None and until <= self._now)

    def _move_on(self) -> bool:
        """Move time to the next moment if everybody waits for it; return whether it moved."""
        if len(self._waiting) < self._threads or any(self._due(entry) for entry in self._waiting):
            return False
        moments = [until for _, until in self._waiting if until is not None]
        self._stuck = not moments
        self._now = min(moments, default=self._now)
        self._change.notify_all()
        return True


class VirtualEvent:
    """An event of a VirtualClock."""

    def __init__(self, change: threading.Condition) -> None:
        self._change = change
        self._set = False

    def set(self) -> None:
        """Wake who waits for it."""
        with self._change:
            self._set = True
            self._change.notify_all()

    def clear(self) -> None:
        """Reset it."""
        self._set = False

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._set

    def wait(self, timeout: float | None = None, /) -> bool:
        """Refuse: real time does not pass here; use `clock.wait`."""
        raise TypeError(f"wait({timeout}) would take real time: use clock.wait(event, until)")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is a VirtualClock's."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_VirtualSelector(clock))
        self._clock = clock

    def time(self) -> float:
        """Return the loop's time, seconds."""
        return self._clock.now() / NS


class _VirtualSelector(selectors.SelectSelector):
    """A selector that lets virtual time pass instead of waiting."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits and nothing would ever happen")
        if timeout > 0:
            self._clock.move_to(self._clock.now() + max(1, seconds(timeout)))
        return []
