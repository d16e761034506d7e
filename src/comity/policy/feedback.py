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
    _sample(limiter, ticket, outcome, now)
    limiter.release(ticket, now, keep_slot=keep_slot)
    return _learn(limiter, ticket, outcome, decision, now)


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
    adaptive = limiter.adaptive
    if adaptive is None or adaptive.use_ttfb or _ending(outcome) is not Ending.OK:  # else its latency is still to come
        _sample(limiter, ticket, outcome, now)
    return _learn(limiter, ticket, outcome, decision, now)


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


def _sample(limiter: HostLimiter, ticket: Ticket, outcome: Outcome, now: int) -> None:
    if limiter.adaptive is not None or limiter.breaker is not None:
        limiter.sample(ticket, now, _ending(outcome), outcome.retry_after)


def _ending(outcome: Outcome) -> Ending:
    """Say what an outcome tells about the host's load."""
    status, failure = outcome.meaning, outcome.failure
    if outcome.refused:
        return Ending.REFUSED
    if failure == "timeout" or (failure is None and status == 408):
        return Ending.TIMED_OUT
    if failure in {"connect", "lost", "truncated"} or (status is not None and status >= 500):
        return Ending.FAILED
    return Ending.NOTHING if failure is not None or status is None else Ending.OK


def _learn(limiter: HostLimiter, ticket: Ticket, outcome: Outcome, decision: Decision, now: int) -> bool:
    if isinstance(decision, Done) and not outcome.refused:
        limiter.succeeded(ticket)
        return False
    pause = None if isinstance(decision, Done) else decision.pause
    block = decision.block if isinstance(decision, GiveUp) else None
    if outcome.refused or pause is not None or block is not None:
        hinted = outcome.retry_after is not None
        until = max(now, pause or 0, block or 0)
        return limiter.refuse_until(ticket, now, until, refused=outcome.refused, hinted=hinted, block=block is not None)
    if outcome.failure not in {"blocked", "cancelled", "deadline"}:  # these are the caller's doing
        limiter.failed()
    return False
