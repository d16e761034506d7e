"""Ticket: one request's way through the gate.

NEW ─► WAITING ─► GRANTED ─► STARTED ─► ANSWERED ─► DONE         `release` is the one way to DONE;
          │          │           │                    ▲ │          from there a retry goes back to WAITING
          │          └───────────┴────────────────────┘ └─► WAITING
          └─► EXPIRED, BLOCKED, WITHDRAWN or CLOSED
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from comity.policy.controller import Start
from comity.policy.windows import NEVER

NOT_STARTED = -1
"""A start before all others: nothing that such a request is told concerns its host."""


class State(Enum):
    """Where a ticket stands."""

    NEW = 0
    WAITING = 1
    GRANTED = 2
    STARTED = 3
    ANSWERED = 4
    DONE = 5
    EXPIRED = 6
    BLOCKED = 7
    WITHDRAWN = 8
    CLOSED = 9


class Ticket(msgspec.Struct, eq=False):
    """One request's place: what it costs, since when it waits, how long it may, and what it holds.

    Args:
        priority: 0 (first) to 9.
        costs: one number for each meter of the limiter (see `HostLimiter.costs`).
        deadline: ns; still waiting then, it expires.
        part: what of the host it is for, where its caller tells parts apart; see `Blame`.

    Attributes:
        enqueued_at: when it first asked for its turn, ns.
        not_before: ns; until then it waits aside and holds up nobody (a backoff).
        place: the number of its entry in the queue, 0 when it does not wait.
        charged, marks: what the attempt under way, or the last one, is charged with at each meter, and where.
        rank: how many had been let through with it, at its last grant.
        started_at: when that attempt started, ns, or NOT_STARTED.
        answered_at: when the attempt's answer began, ns, or NOT_STARTED.
        start: what the adaptive control, if there is one, wants back at the attempt's end; None once it has it.
        holds_slot: it keeps its slot between two attempts.
        waiter: belongs to the engine: how to tell the one who waits.
    """

    priority: int
    costs: tuple[int, ...]
    deadline: int = NEVER
    part: str | None = None
    state: State = State.NEW
    enqueued_at: int | None = None
    not_before: int = 0
    place: int = 0
    charged: tuple[int, ...] = ()
    marks: list[int | None] = msgspec.field(default_factory=list)
    rank: int = 0
    started_at: int = NOT_STARTED
    answered_at: int = NOT_STARTED
    start: Start | None = None
    holds_slot: bool = False
    waiter: Any = None
