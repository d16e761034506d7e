"""Refusal: the error for a ticket whose turn did not come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from comity.engine.gate import Gate
from comity.engine.moments import moment, seconds_text, until_text
from comity.errors import ClientClosed, HostBlocked, QueueTimeout, RequestError, TimedOut
from comity.policy.attempt import Attempt
from comity.policy.ticket import State, Ticket
from comity.policy.windows import NEVER


def refusal(
    ticket: Ticket,
    gate: Gate,
    *,
    asked: int,
    began: int = 0,
    deadline: int | None = None,
    request: Any = None,
    attempts: Sequence[Attempt] = (),
) -> RequestError:
    """Return what to raise for `ticket`, which was refused.

    Args:
        ticket: EXPIRED, BLOCKED or CLOSED.
        gate: where it stood.
        asked: since when, ns.
        began: when the whole call began, ns.
        deadline: of the whole call, ns, or None.
        request: for the error.
        attempts: sent before, for the error.
    """
    now = gate.clock.now()
    waited = (now - asked) / 1e9
    common = {"request": request, "attempts": attempts}
    fate = "it was not sent again" if attempts else "it was not sent"
    if ticket.state is State.CLOSED:
        return ClientClosed(f"the client or limiter is closed; {fate}", **common)
    if ticket.state is State.BLOCKED:
        hold = gate.core.hold
        seconds, until = max(0, hold - now) / 1e9, moment(gate.clock, hold)
        when = until_text(until, seconds)
        if gate.core.pause.blocked_until > now:
            text = f"{gate.core.name} wants no request before {when}"
        else:
            text = f"{gate.core.name} is paused after a refusal until {when}, longer than this request may wait"
        return HostBlocked(f"{text}; {fate}", until=until, retry_after=seconds, **common)
    if deadline is not None and ticket.deadline == deadline:
        limit = (deadline - began) / 1e9
        text = f"the deadline of {seconds_text(limit)} s passed before its turn came; {fate}"
        return TimedOut(text, phase="deadline", seconds=limit, sent="no", **common)
    start = gate.earliest(ticket)
    needed = None if start >= NEVER else (start - now) / 1e9
    more = "" if needed is None else f"; the limits allow the next start in {seconds_text(needed)} s"
    text = f"no turn within {seconds_text(waited)} s{more}; {fate}"
    return QueueTimeout(text, waited=waited, needed=needed, **common)
