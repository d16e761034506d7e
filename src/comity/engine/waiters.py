"""Waiters: how a task or a thread waits at a gate, and how it is told when to look at the clock again."""

from __future__ import annotations

import asyncio
from asyncio import (
    _get_running_loop as _running,  # documented for event loops; the public one raises when there is none
)
from collections.abc import Callable

from comity.engine.clock import Clock
from comity.policy.windows import NEVER


class Alarm:
    """One event loop's alarm at one gate.

    `at` and `waiting` change under the gate's lock; the timer itself is touched only in its own loop.
    """

    __slots__ = ("_clock", "_timer", "_went_off", "at", "loop", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, went_off: Callable[[Alarm], None]) -> None:
        self.loop, self._clock, self._went_off = loop, clock, went_off
        self.waiting = 0
        self.at = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Set the timer to `at`, from any thread; a loop that is closed needs none."""
        if _running() is self.loop:
            self._schedule()
        else:
            _call(self.loop, self._schedule)

    def _schedule(self) -> None:
        # `at` is read here, not handed over: two threads may ask in one order and be heard in the other
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.at < NEVER:
            self._timer = self.loop.call_later(max(0, self.at - self._clock.now()) / 1e9, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._went_off(self)


class LoopWaiter:
    """A task that waits."""

    __slots__ = ("_alarm", "future")

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self.future: asyncio.Future[None] = alarm.loop.create_future()

    def join(self) -> None:
        """Count as waiting; under the gate's lock."""
        self._alarm.waiting += 1

    def leave(self) -> None:
        """Count no longer; under the gate's lock."""
        self._alarm.waiting -= 1

    def wake(self) -> bool:
        """Tell the task, from any thread; return False when its loop is closed."""
        if _running() is self._alarm.loop:
            self._resolve()
            return True
        return _call(self._alarm.loop, self._resolve)

    def _resolve(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Crew:
    """The threads that wait at one gate; the leader wakes at `at`, the others only when they are told.

    Everything here happens under the gate's lock, but for `ring`.
    """

    __slots__ = ("_leader", "_threads", "at", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.at = NEVER
        self._leader: ThreadWaiter | None = None
        self._threads: dict[ThreadWaiter, None] = {}

    @property
    def waiting(self) -> int:
        """How many threads wait."""
        return len(self._threads)

    @property
    def leaderless(self) -> bool:
        """Whether threads wait and none of them watches the clock."""
        return self._leader is None and bool(self._threads)

    def join(self, waiter: ThreadWaiter) -> None:
        """Add a thread."""
        self._threads[waiter] = None

    def leave(self, waiter: ThreadWaiter) -> None:
        """Take a thread out; the crew may be without a leader then."""
        self._threads.pop(waiter, None)
        if self._leader is waiter:
            self._leader = None
            self.at = NEVER

    def lead(self, waiter: ThreadWaiter) -> int | None:
        """Return until when `waiter` should wait: the leader until `at`, others without limit (None)."""
        if self._leader is None:
            self._leader = waiter
        return self.at if self._leader is waiter and self.at < NEVER else None

    def ring(self) -> None:
        """Make the leader, or somebody who becomes it, look at the clock again."""
        waiter = self._leader or next(iter(tuple(self._threads)), None)
        if waiter is not None:
            waiter.signal.set()


class ThreadWaiter:
    """A thread that waits."""

    __slots__ = ("_crew", "signal")

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.signal = crew.clock.signal()

    def join(self) -> None:
        """Count as waiting; under the gate's lock."""
        self._crew.join(self)

    def leave(self) -> None:
        """Count no longer; under the gate's lock."""
        self._crew.leave(self)

    def wake(self) -> bool:
        """Tell the thread."""
        self.signal.set()
        return True


def _call(loop: asyncio.AbstractEventLoop, step: Callable[[], None]) -> bool:
    try:
        loop.call_soon_threadsafe(step)
    except RuntimeError:  # the loop is closed
        return False
    return True
