"""Feedback: what an attempt's end means for its host, in one step: give back, then learn."""

from __future__ import annotations

from comity.policy.controller import Ending
from comity.policy.limiter import HostLimiter
from comity.policy.outcome import Outcome
from comity.policy.retry import Decision, Done, GiveUp
from comity.policy.ticket import Ticket


def end_attempt(
    limiter: HostLimiter, ticket: Ticket, outcome: Outcome, decision: Decision, now: int, *, keep_slot: bool = False
) -> bool:
    """Give back what the attempt held and let the host learn from its outcome.

    Args:
        limiter: the host's.
        ticket: the attempt's; with `keep_slot` it keeps its slot for the retry that follows.
        outcome: how it ended.
        decision: what `decide` made of it; its pause and block concern everybody.
        now: ns.
        keep_slot: the policy's `hold_slot`, and another attempt follows.

    Returns:
        Whether a pause or block began: the first refusal of a new episode.
    """
    if outcome.sent != "no":
        limiter.started(ticket, now)
    hold = _hold(limiter, ticket, outcome, decision, now)
    _sample(limiter, ticket, _ending(outcome, hold), outcome.retry_after, now)
    limiter.release(ticket, now, keep_slot=keep_slot)
    return _learn(limiter, ticket, outcome, decision, hold, now=now)


def learn(limiter: HostLimiter, ticket: Ticket, outcome: Outcome, decision: Decision, now: int) -> bool:
    """Let the host learn from the head of an answer and from what was decided upon it; `end_heard` has to follow.

    Args:
        limiter: the host's.
        ticket: the attempt's; it has started.
        outcome: what its head says.
        decision: what `decide` made of it.
        now: ns.

    Returns:
        Whether a pause or block began.
    """
    adaptive, hold = limiter.adaptive, _hold(limiter, ticket, outcome, decision, now)
    ending = _ending(outcome, hold)
    if adaptive is None or adaptive.use_ttfb or ending is not Ending.OK:  # else its latency is still to come
        _sample(limiter, ticket, ending, outcome.retry_after, now)
    return _learn(limiter, ticket, outcome, decision, hold, now=now)


def end_heard(limiter: HostLimiter, ticket: Ticket, now: int, *, whole: bool, keep_slot: bool = False) -> None:
    """Give back what an attempt held that the host learned from by its head.

    Args:
        limiter: the host's.
        ticket: the attempt's.
        now: ns.
        whole: the answer came to its end, so that its latency counts where whole answers are sampled.
        keep_slot: as of `end_attempt`.
    """
    if whole and ticket.start is not None:
        limiter.sample(ticket, now, Ending.OK)
    limiter.release(ticket, now, keep_slot=keep_slot)


def _hold(limiter: HostLimiter, ticket: Ticket, outcome: Outcome, decision: Decision, now: int) -> int | None:
    """Return until when the outcome holds the host, ns; None for a refusal that is not the host's."""
    pause = None if isinstance(decision, Done) else decision.pause
    block = decision.block if isinstance(decision, GiveUp) else None
    until = max(now, pause or 0, block or 0)
    guessed = outcome.refused and outcome.retry_after is None
    return limiter.blamed(ticket, now, until) if guessed else until


def _sample(limiter: HostLimiter, ticket: Ticket, ending: Ending, hint: int | None, now: int) -> None:
    if limiter.adaptive is not None or limiter.breaker is not None:
        limiter.sample(ticket, now, ending, hint)


def _ending(outcome: Outcome, hold: int | None) -> Ending:
    """Say what an outcome tells about the host's load."""
    status, failure = outcome.meaning, outcome.failure
    if outcome.refused:
        return Ending.NOTHING if hold is None else Ending.REFUSED
    if failure == "timeout" or (failure is None and status == 408):
        return Ending.TIMED_OUT
    if failure in {"connect", "lost", "truncated"} or (status is not None and status >= 500):
        return Ending.FAILED
    return Ending.NOTHING if failure is not None or status is None else Ending.OK


def _learn(
    limiter: HostLimiter, ticket: Ticket, outcome: Outcome, decision: Decision, hold: int | None, *, now: int
) -> bool:
    if isinstance(decision, Done) and not outcome.refused:
        limiter.succeeded(ticket)
        return False
    if hold is None:
        return False
    pauses = not isinstance(decision, Done) and decision.pause is not None
    block = isinstance(decision, GiveUp) and decision.block is not None
    if outcome.refused or pauses or block:
        hinted = outcome.retry_after is not None
        return limiter.refuse_until(ticket, now, hold, refused=outcome.refused, hinted=hinted, block=block)
    if outcome.failure not in {"blocked", "cancelled", "deadline"}:  # these are the caller's doing
        limiter.failed()
    return False
