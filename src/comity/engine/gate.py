"""Gate: real time, loops and threads meet the pure limiter.

Theory. The limiter's state sits behind one lock, held for arithmetic only. A step under the lock *returns* what is left
to do outside it, a `Todo`: whom to wake, which alarms to set, which other gate has its turn. Waiters belong to an event
loop or to a thread. Every loop with waiters keeps one alarm, and all waiting threads together keep one (their leader
waits with a timeout, the others without); whichever goes off first admits for all. So no loop or thread depends on
another one being alive: a waiter whose loop is closed is skipped, and what it was granted is undone. A task that is
forgotten (its loop was closed when it ran, or just after its grant) gives back what it holds when it is destroyed.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import start_new_thread
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from comity.engine.changes import Changes
from comity.engine.clock import Clock
from comity.engine.stats import Tally
from comity.engine.waiters import Alarm, Crew, LoopWaiter, ThreadWaiter
from comity.policy.limiter import HostLimiter
from comity.policy.ticket import State, Ticket
from comity.policy.windows import NEVER

Step = Callable[[int], object]


@dataclass(slots=True)
class Todo:
    """What a step leaves to do once the lock is free."""

    wake: list[Ticket]
    alarms: list[Alarm | Crew]
    wake_at: int
    turn: Gate | None


class Gate:
    """A limiter that loops and threads can wait at.

    Args:
        core: the limiter.
        clock: what time it is.
        lock: shared by the gates that share a bound over hosts.
        turn: returns the gate that may take a freed place now, or None; called under the lock.
    """

    def __init__(
        self, core: HostLimiter, clock: Clock, lock: threading.Lock, turn: Callable[[], Gate | None] | None = None
    ) -> None:
        self.core, self.clock, self.lock = core, clock, lock
        self._now = clock.now
        self.tally, self.changes = Tally(), Changes()
        self.calls = 0
        """How many calls use this gate now, waiting between two attempts included; it is not forgotten meanwhile."""
        self._turn = turn
        self._alarms: dict[asyncio.AbstractEventLoop, Alarm] = {}
        self._crew = Crew(clock)

    # ---- waiting -------------------------------------------------------------------------------

    def enter_loop(self, ticket: Ticket) -> bool:
        """Queue `ticket` for a task of the running loop; return whether it is decided already.

        If not, await `ticket.waiter.future`.

        Raises:
            QueueFull: the queue is at its bound.
        """
        return self._enter(ticket, self._loop_waiter)

    def enter_thread(self, ticket: Ticket) -> bool:
        """Queue `ticket` for this thread; return whether it is decided already. If not, call `wait_thread`.

        Raises:
            QueueFull: the queue is at its bound.
        """
        return self._enter(ticket, self._thread_waiter)

    def wait_thread(self, ticket: Ticket) -> None:
        """Block this thread until `ticket` is decided."""
        waiter: ThreadWaiter = ticket.waiter
        while True:
            waiter.signal.clear()  # before the look at the state: what is set after it is not lost
            with self.lock:
                if ticket.state is not State.WAITING:
                    return
                until = self._crew.lead(waiter)
            waiter.signal.wait(until)
            if ticket.state is State.WAITING:
                self._went_off(self._crew)

    # ---- the way of a ticket -------------------------------------------------------------------

    def change(self, step: Step) -> None:
        """Run one step of the limiter with the time, admit who may start then, and wake them."""
        with self.lock:
            now = self._now()
            step(now)
            todo = self._rest(now)
        if todo is not None:
            self._act(todo)

    def change_unwaiting(self, step: Step) -> None:
        """Do the same in the destructor of a forgotten coroutine, which must not wait for the lock.

        It may run at any allocation, so perhaps within a step, and then its own thread holds the lock.
        """
        if not self.lock.acquire(blocking=False):
            start_new_thread(self.change, (step,))
            return
        try:
            todo = self.step(step)
        finally:
            self.lock.release()
        if todo is not None:
            self._act(todo)

    def started(self, ticket: Ticket) -> None:
        """Note that the first byte was handed over."""
        with self.lock:
            now = self._now()
            self.core.started(ticket, now)
            todo = self._rest(now)
        if todo is not None:
            self._act(todo)

    def answered(self, ticket: Ticket) -> None:
        """Note that the answer began."""
        self.change(lambda now: self.core.answered(ticket, now))

    def withdraw(self, ticket: Ticket, now: int) -> None:
        """Take `ticket` back, wherever it stands; a step for `change`."""
        if ticket.state is State.WAITING and ticket.waiter is not None:
            ticket.waiter.leave()
        self.core.withdraw(ticket, now)

    def earliest(self, ticket: Ticket) -> int:
        """Return when the limits would let `ticket` start if it stood at the head, ns, or NEVER."""
        with self.lock:
            return self.core.earliest(self.clock.now(), ticket.costs, ticket.part)

    def close(self) -> None:
        """Refuse everybody who waits and everybody who comes."""
        self.change(lambda _now: self.core.close())

    # ---- helpers -------------------------------------------------------------------------------

    def _enter(self, ticket: Ticket, waiter: Callable[[], LoopWaiter | ThreadWaiter]) -> bool:
        ticket.waiter = None
        with self.lock:
            now = self._now()
            if self.core.grant_at_once(ticket, now):
                return True
            self.core.enqueue(ticket, now)
            todo = self._admit(now, newcomer=ticket)
            waits = ticket.state is State.WAITING
            if waits:
                ticket.waiter = waiter()
                ticket.waiter.join()
                self._plan(todo)
        self._act(todo)
        return not waits

    def _went_off(self, alarm: Alarm | Crew) -> None:
        """Admit, and set the alarm anew: its time has come, or a thread was asked to look at the clock."""
        with self.lock:
            alarm.at = NEVER
            todo = self._admit(self.clock.now())
        self._act(todo)

    def step(self, step: Step) -> Todo | None:
        """Run one step of the limiter, under the lock, and return what it leaves to do."""
        now = self._now()
        step(now)
        return self._rest(now)

    def _rest(self, now: int) -> Todo | None:
        """Return what a step that was made at `now` leaves to do."""
        core = self.core
        if core.undisturbed(now) and not (core.aside and self._crew.leaderless):
            return None
        return self._admit(now)

    def _act(self, todo: Todo) -> None:
        """Do what a step left to do, and what that leaves in turn; no recursion, however long the line."""
        left = [(self, todo)]
        while left:
            gate, todo = left.pop()
            for alarm in todo.alarms:
                alarm.ring()
            dead = [ticket for ticket in todo.wake if not ticket.waiter.wake()]
            steps: list[tuple[Gate, Step]] = [(gate, partial(gate.core.withdraw_all, dead))] if dead else []
            if todo.turn is not None:
                steps.append((todo.turn, _nothing))
            for each, step in steps:
                with each.lock:
                    more = each.step(step)
                if more is not None:
                    left.append((each, more))

    def _admit(self, now: int, newcomer: Ticket | None = None) -> Todo:
        admission = self.core.admit(now)
        wake = [t for t in (*admission.granted, *admission.refused) if t is not newcomer]
        for ticket in wake:
            ticket.waiter.leave()
        todo = Todo(wake, [], admission.wake_at, self._turn() if self._turn else None)
        self._plan(todo)
        return todo

    def _plan(self, todo: Todo) -> None:
        """Name the alarms that have to go off earlier than they are set to."""
        if todo.wake_at == NEVER:
            return
        for alarm in self._alarms.values():
            if alarm.waiting and alarm.at > todo.wake_at:
                alarm.at = todo.wake_at
                todo.alarms.append(alarm)
        crew = self._crew
        if crew.waiting and (crew.at > todo.wake_at or crew.leaderless):
            crew.at = min(crew.at, todo.wake_at)
            todo.alarms.append(crew)

    def _loop_waiter(self) -> LoopWaiter:
        return LoopWaiter(self._alarm(asyncio.get_running_loop()))

    def _thread_waiter(self) -> ThreadWaiter:
        return ThreadWaiter(self._crew)

    def _alarm(self, loop: asyncio.AbstractEventLoop) -> Alarm:
        alarm = self._alarms.get(loop)
        if alarm is None:
            self._alarms = {other: kept for other, kept in self._alarms.items() if not other.is_closed()}
            alarm = self._alarms[loop] = Alarm(loop, self.clock, self._went_off)
        return alarm


def _nothing(_now: int) -> None:
    """Change nothing: the time alone may admit somebody."""
