"""HostLimiter: the one gate of a host. Pure: every method gets `now`, every effect is a return value.

Theory. Concurrency, every rate, the gap, a pause, a block and whatever else limits a host are decided in one step, for
the head of the queue alone: its earliest start is the latest that any control names, the cap is the smallest. Nothing is
taken before everything can be taken (no token before the slot, no slot before the token), nothing is reserved ahead
of time, so a waiter that goes away costs nothing and nobody waits for ghosts. The head blocks those behind it: a big cost
is not starved by small ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from comity.errors import QueueFull
from comity.policy.adapting import controller
from comity.policy.admission import Admission
from comity.policy.blame import Blame
from comity.policy.breaker import Breaker
from comity.policy.budget import Bucket
from comity.policy.control import Control
from comity.policy.controller import Ending
from comity.policy.failure_law import FailureLaw
from comity.policy.gap import Gap
from comity.policy.hedge import Latencies
from comity.policy.line import Line
from comity.policy.meters import Meters
from comity.policy.options import Policy
from comity.policy.pause import NO_CAP, Pause
from comity.policy.quotas import Quota
from comity.policy.spread import SHORT, Spread
from comity.policy.steady import Steady
from comity.policy.ticket import NOT_STARTED, State, Ticket
from comity.policy.turns import Turns
from comity.policy.windows import NEVER


class HostLimiter(Line):
    """All limits of one host, and who waits there.

    Args:
        policy: the limits.
        now: ns; fixed windows are anchored here.
        turns: the bound that it shares with other hosts, and its name there.
        wall_offset: wall clock minus the clock of `now`, ns.
    """

    def __init__(
        self, policy: Policy, now: int, *, turns: Turns | None = None, name: str = "", wall_offset: int = 0
    ) -> None:
        self.policy, self.name = policy, name
        self._turns = turns
        self._limit = NO_CAP if policy.concurrency is None else policy.concurrency
        super().__init__(policy.ageing_ns)
        self.meters = Meters(policy.rate, now)
        self.gap = Gap(policy.min_gap_ns, learns=policy.learns_gap)
        self.pause, self.blame = Pause(self._limit), Blame()
        self.budget = None if policy.retry_budget is None else Bucket(policy.retry_budget, now)
        self.usage = None if policy.usage is None else policy.usage.within(policy.budgets)
        self.latencies = None if policy.hedge is None else Latencies(policy.hedge)
        self.spread = Spread(SHORT if policy.knows_rate else 0)
        self._controls: tuple[Control, ...] = (self.pause, self.spread)
        self.adaptive = controller(
            policy.adaptive, policy.concurrency, policy.breaker, now, wall_offset, learns_rate=policy.learns_rate
        )
        self.breaker = None if self.adaptive is None else self.adaptive.breaker
        self._guards = self.breaker is None and policy.breaker is not None
        if self._guards:
            self.breaker = FailureLaw(policy.breaker or Breaker())
        self._made = now
        self.running = 0
        """How many hold a slot."""
        self._resting = 0
        """How many of them hold it between two attempts."""
        self.closed = False
        self.refresh()

    def refresh(self) -> None:
        """Take over what the controls say now; call it after changing one."""
        self._most = min(self._limit, *(control.cap for control in self._controls))
        self.hold = max(control.until for control in self._controls)
        """No start before, and it is worth telling those who cannot wait so long."""
        self._follow()
        self._plain = None if self.closed or self.gap.width else self.meters.plain
        self.quick = None if self._turns else self._plain

    def undisturbed(self, now: int) -> bool:
        """Whether `admit` has nothing to do: nobody waits here for his turn, nor another host for a place."""
        later, turns = self._later, self._turns
        return not (
            self.queued or self._refused or (later and later[0][0] <= now) or (turns is not None and turns.line)
        )

    # ---- the short way, without a ticket: one request of ordinary cost that starts now and ends with `give_back`

    def take(self, now: int) -> bool:
        """Start one at once; return False when anything stands in its way or the rates need the long way."""
        windows = self.quick
        if windows is None or self.queued or self.running >= self.cap or self.ready > now:
            return False
        for window in windows:
            if window.used >= window.limit and not window.fits(now, 1):
                for taken in windows[: windows.index(window)]:
                    taken.used -= 1
                    taken.times.pop()
                return False
            window.used += 1
            window.times.append(now)
        self.running += 1
        return True

    def give_back(self, now: int) -> None:
        """End one that costs the ordinary cost and has started, by `take` or as a ticket."""
        self.meters.end_ordinary(now)
        self.running -= 1

    # ---- the way of a ticket -------------------------------------------------------------------

    def grant_at_once(self, ticket: Ticket, now: int) -> bool:
        """Grant a ticket that nothing stands in the way of; return False when it has to go through the queue.

        It decides what `enqueue` and `admit` would, with less work.
        """
        if self.queued or self.running >= self.cap or self.closed or ticket.holds_slot:
            return False
        if (self._later and self._ripe(now)) or ticket.deadline <= now:
            return False
        if ticket.part is not None and self.blame.until(ticket.part) > now:
            return False
        turns = self._turns
        if ticket.not_before > now or self.ready > now or (turns is not None and (turns.line or not turns.free)):
            return False
        windows = self._plain
        if windows is not None and ticket.costs is self.meters.ordinary:
            for window in windows:
                if not window.reserve_one(now):
                    for reserved in windows[: windows.index(window)]:
                        reserved.undo(1)
                    return False
            self._begin(ticket, now)
        elif self._earliest(ticket, now) > now:
            return False
        else:
            self._grant(ticket, now)
        if turns is not None:
            turns.free -= 1
        if ticket.enqueued_at is None:
            ticket.enqueued_at = now
        ticket.state = State.GRANTED
        return True

    def enqueue(self, ticket: Ticket, now: int) -> None:
        """Put a new ticket, or one that tries again, into the queue; `admit` decides.

        A ticket that cannot start in time because of a pause or block is refused at once.

        Raises:
            QueueFull: `max_queue` tickets wait already. A retry is never turned away: it was let in once.
        """
        if self.closed:
            ticket.state = State.CLOSED
            self._refused.append(ticket)
            return
        if ticket.enqueued_at is None:
            if self.queued >= self.policy.max_queue:
                raise QueueFull(
                    f"{self.queued} requests wait already (max_queue={self.policy.max_queue}); nothing was sent"
                )
            ticket.enqueued_at = now
        if self.pause.blocked_until > now or ticket.deadline <= self.hold > now:
            ticket.state = State.BLOCKED
            self._refused.append(ticket)
            return
        if ticket.part is not None:
            ticket.not_before = max(ticket.not_before, self.blame.until(ticket.part))
        self._join(ticket, now)

    def admit(self, now: int) -> Admission:
        """Decide who starts at `now`, who is refused, and when to ask again."""
        if self._deadlines:
            self._expire(now, State.EXPIRED)
        adaptive = self.adaptive
        if adaptive is not None and adaptive.wake < now:
            adaptive.tick(now)
            self._follow()
        self._ripen(now)
        granted: list[Ticket] = []
        wake_at, in_line = NEVER, False
        while heap := self._head():
            ticket = heap[0][2]
            if (self.running - self._resting if ticket.holds_slot else self.running) >= self.cap:
                break
            if ticket.part is not None and (held := self.blame.until(ticket.part)) > now:
                self._put_aside(ticket, held)
                continue
            start = self._earliest(ticket, now)
            if start > now:
                wake_at = start
                break
            if self._turns and not ticket.holds_slot and not self._turns.take(self.name):
                in_line = True
                break
            heapq.heappop(heap)
            self._leave(ticket, State.GRANTED)
            self._grant(ticket, now)
            granted.append(ticket)
        if self._turns and not in_line:
            self._turns.leave(self.name)
        wake_at = min(wake_at, self._next_time())
        if adaptive is not None and self.queued:
            wake_at = min(wake_at, adaptive.wake + 1)
        refused, self._refused = self._refused, []
        return Admission(granted, refused, wake_at)

    def started(self, ticket: Ticket, now: int) -> None:
        """Note that the first byte was handed over (or the callable began)."""
        if ticket.state is not State.GRANTED:
            return
        ticket.state = State.STARTED
        ticket.started_at = now
        self.gap.start(now)
        windows = self._plain
        if windows is not None and ticket.charged is self.meters.ordinary:
            ticket.marks = [window.start(now, 1) for window in windows]
        else:
            self.meters.date(ticket, now, at_answer=False)

    def carry(self, ticket: Ticket, now: int) -> None:
        """Take in what was started elsewhere and is under way, whatever the limits say; it counts as started now."""
        self._grant(ticket, now)
        ticket.state = State.GRANTED
        if self._turns is not None:
            self._turns.free -= 1
        self.started(ticket, now)

    def answered(self, ticket: Ticket, now: int) -> None:
        """Note that the answer began."""
        if ticket.state is State.STARTED:
            ticket.state = State.ANSWERED
            self.meters.date(ticket, now, at_answer=True)

    def release(self, ticket: Ticket, now: int, *, keep_slot: bool = False) -> None:
        """Give back what the ticket holds; with `keep_slot` all but the slot. Does nothing when it holds nothing."""
        state = ticket.state
        if state is State.STARTED:
            if self.meters.minds_answers:
                self.meters.date(ticket, now, at_answer=True)
        elif state is State.GRANTED:
            self._undo(ticket)
        elif state is not State.ANSWERED:
            if not ticket.holds_slot:
                return
            self._resting -= 1
        ticket.state = State.DONE
        ticket.holds_slot = keep_slot
        if ticket.start is not None:
            self.sample(ticket, now, Ending.NOTHING)
        if keep_slot:
            self._resting += 1
            return
        self.running -= 1
        if self._turns is not None:
            self._turns.give()

    def withdraw(self, ticket: Ticket, now: int) -> None:
        """Take back a ticket in whatever state: out of the queue, or with all it holds."""
        if ticket.state is State.WAITING:
            self._leave(ticket, State.WITHDRAWN)
            self._tidy()
        self.release(ticket, now)
        ticket.state = State.WITHDRAWN

    def withdraw_all(self, tickets: Iterable[Ticket], now: int) -> None:
        """Take back several tickets."""
        for ticket in tickets:
            self.withdraw(ticket, now)

    def settle(self, ticket: Ticket, actual: int | Mapping[str, int], now: int) -> None:
        """Correct the reserved cost of a started ticket to what it really was, at its original start.

        Args:
            ticket: started, running or done; one that never started cost nothing, and this does nothing. A further
                attempt is charged its estimate again.
            actual: the real cost in requests, or by budget; a budget not named keeps its estimate.
            now: ns; what was estimated at 0 is charged from here.

        Raises:
            OptionsError: a cost is no whole number, or names no budget of this host; nothing is changed.
        """
        self.meters.settle(ticket, actual, now)

    # ---- what answers taught -------------------------------------------------------------------

    def succeeded(self, ticket: Ticket) -> None:
        """Learn from a success: ramp up after a pause, shrink the learned gap.

        One that started before the pause ended tells nothing about what the host bears now.
        """
        if self.budget is not None:
            self.budget.succeeded()
        if ticket.part is not None and self.blame.succeeded(ticket.part, ticket.started_at):
            self._free(ticket.part)
        if self.spread.cap != NO_CAP and self.spread.probed():
            self.refresh()
        if (self.pause.cap != NO_CAP or self.gap.learned) and ticket.started_at >= self.pause.until:
            self.gap.succeeded()
            self.pause.succeeded()
            self.refresh()

    def announced(self, ticket: Ticket, quotas: Iterable[Quota], now: int) -> None:
        """Take what an answer says is left of the host's quotas."""
        if self.policy.obey_quotas:
            self.spread.hear(quotas, ticket.rank, now, self.queued)
            self.refresh()

    def sample(self, ticket: Ticket, now: int, ending: Ending, hint: int | None = None) -> None:
        """Tell the breaker, and the adaptive control if there is one and it was not told yet, how an attempt ended.

        Args:
            ticket: the attempt's.
            now: ns.
            ending: how.
            hint: the wait that a refusal named, ns.
        """
        if self._guards:
            self._guard(ticket, now, ending)
        start, adaptive = ticket.start, self.adaptive
        if start is None or adaptive is None:
            return
        ticket.start = None
        latency = None
        if ending is Ending.OK and ticket.started_at != NOT_STARTED:
            first_byte = adaptive.use_ttfb and ticket.answered_at != NOT_STARTED
            latency = (ticket.answered_at if first_byte else now) - ticket.started_at
        adaptive.end(start, now, ending, latency, hint)
        self._follow()

    def failed(self) -> None:
        """Learn from what was neither a success nor a refusal."""
        self.gap.failed()

    def refuse_until(self, ticket: Ticket, now: int, until: int, *, refused: bool, hinted: bool, block: bool) -> bool:
        """Pause (or block) the host until `until`, ns; return whether that began a new episode.

        Args:
            ticket: whose answer said so.
            now: ns.
            until: ns.
            refused: it was a refusal by rate: a new episode also widens the gap; one that names no time is left to the
                adaptive control, if that has a law for it.
            hinted: the server named the time; within an episode only such a time still counts.
            block: nobody may wait for it; everybody in the queue is refused.
        """
        if refused and not (hinted or block) and self.adaptive is not None and self.adaptive.owns_refusals:
            return False
        new = self.pause.pause(ticket.started_at, until, hinted=hinted)
        if block:
            self.pause.blocked_until = max(self.pause.blocked_until, until)
        if new and refused:
            self.gap.refused()
            if self.adaptive is None and self.policy.learns_rate:
                self._learn_rate(ticket, now, until - now if hinted else None)
        else:
            self.gap.failed()
        self.refresh()
        if block:
            self._drop(State.BLOCKED)
        elif self.hold > now:
            self._expire(self.hold, State.BLOCKED)
        return new

    def blamed(self, ticket: Ticket, now: int, until: int) -> int | None:
        """Note a refusal that names no time; return until when the host is to be held for it, ns.

        None: it is that of the ticket's part alone, which is held from now on; the host learns nothing from it.
        """
        if ticket.part is None:
            return until
        hold = self.blame.refused(ticket.part, ticket.started_at, now, until)
        if hold is not None and self.blame.proved and self.pause.until > now:
            self.pause.until = max(self.pause.until, hold)  # what was a trial is in earnest
        return hold

    def pardon(self) -> None:
        """Hold no part of the host any longer."""
        for part in self.blame.pardoned():
            self._free(part)

    def recall(self, rate: float | None, limit: float | None, now: int) -> None:
        """Begin with what was learned before; nothing has started yet. `refresh` has to follow."""
        if self.adaptive is None and self.policy.learns_rate and rate is not None:
            self.adaptive = Steady(now, self.spread.granted, 0)
        if self.adaptive is not None:
            self.adaptive.recall(rate, limit, now)

    def _learn_rate(self, ticket: Ticket, now: int, hint: int | None) -> None:
        """Begin to learn the rate: this is the first refusal."""
        self.adaptive = Steady(self._made, self.spread.granted, self.running - self._resting)
        self.adaptive.end((ticket.rank - 1, 0, ticket.started_at), now, Ending.REFUSED, None, hint)

    def close(self) -> None:
        """Refuse everybody who waits or comes."""
        self.closed = True
        self.refresh()
        self._drop(State.CLOSED)

    def idle(self, now: int) -> bool:
        """Whether forgetting this limiter loses nothing."""
        if (
            self.running
            or self.queued
            or self.aside
            or self.hold > now
            or not self.gap.idle(now)
            or not self.blame.idle(now)
            or not self.spread.idle
            or (self.adaptive is not None and self.adaptive.rate is not None)
            or (self.breaker is not None and self.breaker.open)
        ):
            return False
        return (self.budget is None or self.budget.idle(now)) and self.meters.idle(now)

    def earliest(self, now: int, costs: tuple[int, ...] | None = None, part: str | None = None) -> int:
        """Return when a request of these costs could start if it stood at the head with a free slot, ns, or NEVER."""
        costs = self.meters.ordinary if costs is None else costs
        return max(self._earliest(Ticket(0, costs), now), self.blame.until(part))

    # ---- helpers -------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Take over what the adaptive control and the breaker say now."""
        adaptive, breaker = self.adaptive, self.breaker
        self.cap = self._most if adaptive is None else min(self._most, adaptive.cap)
        self.ready = self.hold if adaptive is None else max(self.hold, adaptive.until)
        """No start before."""
        if breaker is not None and breaker.until > self.ready:
            self.ready = breaker.until

    def _guard(self, ticket: Ticket, now: int, ending: Ending) -> None:
        """Tell the breaker how an attempt ended, where no adaptive control does."""
        assert self.breaker is not None
        if ending is Ending.OK:
            if self.breaker.success(ticket.rank):
                self.pause.ramp()
                self.refresh()
        elif ending is Ending.FAILED or ending is Ending.TIMED_OUT:
            abreast = min(self.cap, max(1, self.running))
            most = abreast if self.policy.concurrency is None else self.policy.concurrency
            self.breaker.failure(now, self.spread.granted + 1, most, 0, timed_out=False)
        self._follow()

    def _earliest(self, ticket: Ticket, now: int) -> int:
        start = max(now, self.ready)
        if self.gap.width:
            start = max(start, self.gap.earliest(now))
        return max(start, self.meters.earliest(ticket.costs, now))

    def _grant(self, ticket: Ticket, now: int) -> None:
        self.meters.reserve(ticket.costs)
        self._begin(ticket, now)

    def _begin(self, ticket: Ticket, now: int) -> None:
        """Begin an attempt that has reserved its cost at every meter."""
        ticket.started_at = NOT_STARTED
        ticket.charged = ticket.costs
        self.gap.reserve()
        if ticket.part is not None:
            self.blame.granted(ticket.part, now)
        spread = self.spread
        spread.granted = ticket.rank = spread.granted + 1
        if spread.active:
            spread.grant(now, self.queued)
            self.refresh()
        if ticket.holds_slot:
            self._resting -= 1
        else:
            self.running += 1
        adaptive = self.adaptive
        if adaptive is not None:
            ticket.answered_at = NOT_STARTED
            ticket.start = adaptive.begin(self.running - self._resting, now)
            self._follow()
        if self._guards and self.breaker is not None and self.breaker.open:
            self.breaker.begin(now)
            self._follow()

    def _undo(self, ticket: Ticket) -> None:
        self.gap.undo()
        self.meters.undo(ticket.costs)
