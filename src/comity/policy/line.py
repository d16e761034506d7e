"""Line: who waits at a host, in order.

The queue is a heap over the static key `enqueued_at + priority * ageing`, so a request moves up one priority for
every `ageing` it has waited, without ever being touched; a retry keeps its enqueued_at. Entries of tickets that left the
queue otherwise stay in the heap until they come up or are half of it; a ticket that comes again has a new entry.
"""

from __future__ import annotations

import heapq

from comity.policy.ticket import State, Ticket
from comity.policy.windows import NEVER

STRICT = 1 << 70
"""The ageing that never happens: strict priorities."""

Entry = tuple[int, int, Ticket]


class Line:
    """Tickets that wait: for their turn, or aside for the time of their retry.

    Args:
        ageing: ns; None keeps priorities strict.
    """

    def __init__(self, ageing: int | None) -> None:
        self._ageing = STRICT if ageing is None else ageing
        self.queued = 0
        """How many wait for their turn."""
        self.aside = 0
        """How many wait for the time of their retry."""
        self._queue: list[Entry] = []
        self._holders: list[Entry] = []
        self._later: list[Entry] = []
        self._deadlines: list[Entry] = []
        self._refused: list[Ticket] = []
        self._sequence = 0

    def _join(self, ticket: Ticket, now: int) -> None:
        """Let a ticket wait, in line or, before its `not_before`, aside."""
        ticket.state = State.WAITING
        self._sequence += 1
        ticket.place = self._sequence
        if ticket.not_before > now:
            self.aside += 1
            heapq.heappush(self._later, (ticket.not_before, ticket.place, ticket))
        else:
            self._line_up(ticket)
        if ticket.deadline < NEVER:
            heapq.heappush(self._deadlines, (ticket.deadline, ticket.place, ticket))
            self._tidy()

    def _ripe(self, now: int) -> bool:
        """Whether somebody waits aside whose time has come."""
        return bool(self._later) and self._later[0][0] <= now

    def _ripen(self, now: int) -> None:
        """Let those line up whose time has come."""
        while _prune(self._later) and self._ripe(now):
            self.aside -= 1
            self._line_up(heapq.heappop(self._later)[2])

    def _line_up(self, ticket: Ticket) -> None:
        """Let a waiting ticket stand where its age and priority put it."""
        assert ticket.enqueued_at is not None
        self.queued += 1
        ticket.not_before = 0
        key = ticket.enqueued_at + ticket.priority * self._ageing
        heapq.heappush(self._holders if ticket.holds_slot else self._queue, (key, ticket.place, ticket))

    def _put_aside(self, ticket: Ticket, until: int) -> None:
        """Let a ticket of the queue wait aside until `until`, ns."""
        self._sequence += 1
        self.queued, self.aside = self.queued - 1, self.aside + 1
        ticket.not_before, ticket.place = until, self._sequence
        heapq.heappush(self._later, (until, ticket.place, ticket))
        if ticket.deadline < NEVER:
            heapq.heappush(self._deadlines, (ticket.deadline, ticket.place, ticket))
        self._tidy()

    def _free(self, part: str) -> None:
        """Let those of a part line up that wait aside."""
        for _, place, ticket in list(self._later):
            if ticket.place == place and ticket.part == part:
                self.aside -= 1
                self._line_up(ticket)
        self._later = [entry for entry in self._later if entry[2].not_before]
        heapq.heapify(self._later)

    def _head(self) -> list[Entry]:
        """Return the heap whose first entry is the head of the queue: who holds a slot goes first."""
        return _prune(self._holders) or _prune(self._queue)

    def _next_time(self) -> int:
        """Return when a deadline ends or somebody aside has to line up, ns, or NEVER."""
        return min((heap[0][0] for heap in (self._deadlines, self._later) if _prune(heap)), default=NEVER)

    def _leave(self, ticket: Ticket, state: State) -> None:
        """Take a waiting ticket out of the queue; its entries are stale from here."""
        if ticket.not_before:
            self.aside -= 1
        else:
            self.queued -= 1
        ticket.state, ticket.place, ticket.not_before = state, 0, 0

    def _expire(self, now: int, state: State) -> None:
        """Refuse those whose deadline is `now` or before."""
        heap = self._deadlines
        while _prune(heap) and heap[0][0] <= now:
            ticket = heapq.heappop(heap)[2]
            self._leave(ticket, state)
            self._refused.append(ticket)
        self._tidy()

    def _drop(self, state: State) -> None:
        """Refuse everybody in the queue."""
        for heap in (self._holders, self._queue, self._later):
            for _, place, ticket in heap:
                if ticket.place == place:
                    self._leave(ticket, state)
                    self._refused.append(ticket)
        self._tidy()

    def _tidy(self) -> None:
        """Rebuild the heaps when most of what lies in them is gone."""
        for heap in (self._holders, self._queue, self._later, self._deadlines):
            if len(heap) > 2 * (self.queued + self.aside) + 64:
                heap[:] = [entry for entry in heap if entry[1] == entry[2].place]
                heapq.heapify(heap)


def _prune(heap: list[Entry]) -> list[Entry]:
    """Drop stale entries from the top of `heap` and return it."""
    while heap and heap[0][1] != heap[0][2].place:
        heapq.heappop(heap)
    return heap
