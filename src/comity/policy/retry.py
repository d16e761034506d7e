"""Retry: what to do after an attempt. One function decides; clients and durable workers follow it.

    cause                                     answer of `decide`
    429                                       retried whatever the method; counted apart, as a refusal
    408, 425, 5xx, no (whole) answer          retried if the request may be repeated: it is idempotent, carries a key, or
                                              nothing of it was sent
    any other answer                          Done, even with a Retry-After
    broken answer, a guard's veto             GiveUp
    caller's cancel or limit                  GiveUp

What a status decides is decided when the head of the answer is there, whatever becomes of the body.
A Retry-After (or another hint) is the least wait and concerns the whole host; except on a 429 it never decides whether
to retry. A hint that cannot be waited for ends the call at once: a retry before the time that the server named would
only fail again (RFC 9110, 10.2.3; RFC 6585, 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import msgspec

from comity.errors import OptionsError, Sent
from comity.policy.backoff import Backoff
from comity.policy.naming import check_choice, named_options, unusable
from comity.policy.outcome import Failure, Outcome, asks_again
from comity.policy.units import (
    NS,
    Seconds,
    as_ns,
    duration,
    flag,
    integer,
    plain_function,
    required,
    seconds,
    to_seconds,
)

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""RFC 9110, 9.2.2."""

_UNBOUNDED = 1 << 62
"""More attempts than anybody can make: a function alone says when to stop."""

Why = Literal[
    "attempts", "refusals", "method", "body", "retry_after", "deadline", "backoff", "budget", "bad", "blocked", "cancelled"
]  # fmt: skip
"""Why a call is given up.

attempts, refusals: used up.  method: not idempotent, and something may have been sent.  body: it cannot be sent twice.
retry_after: the server named a time beyond `max_retry_after`.  deadline: the next send would come too late.
backoff: the caller's function said so.  budget: the host's retries are spent.  bad: the answer is broken in itself.
blocked: a guard let nobody connect.  cancelled: by the caller.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryInfo:
    """What a backoff function is told.

    Args:
        index: 0 on the first retry, as `Backoff.wait` gets it.
        attempts: sends so far, refusals not counted (unless `refusals=0`).
        refusals: answers 429 so far that were counted apart.
        status: the answer's status, or None.
        failure: why there was none.
        sent: whether bytes were handed to the socket.
        retry_after: seconds that the answer asked to wait; the retry never comes earlier, whatever is returned.
        elapsed: seconds since the call began.
    """

    index: int
    attempts: int
    refusals: int
    status: int | None
    failure: Failure | None
    sent: Sent
    retry_after: float | None
    elapsed: float


BackoffFunction = Callable[[RetryInfo], float | timedelta | None]
"""Returns seconds, or None (or False) to give up."""


@named_options
@dataclass(frozen=True, init=False)
class Retry:
    """When to try again, and how often.

    Args:
        attempts: sends in all, the first included; at least 1, 3 by default.
        retries: the same as `attempts=retries + 1`; None means the default. Give one of the two.
        refusals: how many 429s are waited out beyond `attempts`; 0 counts a 429 as an attempt and then waits exactly the
            time that it names. By default 10, but 0 with `attempts=1`, which so never sends anything twice.
        backoff: the waits: a `Backoff`, or a function of `RetryInfo` that returns seconds or None. A function is asked
            before every retry; `attempts` and `refusals` bound it all the same.
        max_retry_after: the longest wait that a server may ask for; a longer one ends the call with RateLimited and
            blocks the host until then. None waits however long.
        over_cap: "fail" as said, or "clamp": wait `max_retry_after` and send too early.
        idempotent: which requests may be repeated: "methods" (RFC 9110, 9.2.2), "any", or a function of the request that
            declares others repeatable besides.
        hold_slot: keep the request's slot of concurrency during waits.

    Raises:
        OptionsError: a value cannot be used, or both `attempts` and `retries` are given.

    Example:
        >>> Retry(retries=2).attempts
        3
    """

    attempts: int
    refusals: int
    backoff: Backoff | BackoffFunction
    max_retry_after: float | None
    over_cap: Literal["fail", "clamp"]
    idempotent: Literal["methods", "any"] | Callable[[Any], bool]
    hold_slot: bool
    max_retry_after_ns: int | None = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        *,
        attempts: int | None = None,
        retries: int | None = None,
        refusals: int | None = None,
        backoff: Backoff | BackoffFunction = Backoff(),  # noqa: B008 - frozen
        max_retry_after: Seconds | None = 60.0,
        over_cap: Literal["fail", "clamp"] = "fail",
        idempotent: Literal["methods", "any"] | Callable[[Any], bool] = "methods",
        hold_slot: bool = False,
    ) -> None:
        if not isinstance(backoff, Backoff) and not callable(backoff):
            raise OptionsError("retry.backoff", backoff, "a Backoff(...) or a function of RetryInfo")
        if not isinstance(backoff, Backoff):
            plain_function(backoff, "retry.backoff")
        check_choice(over_cap, "retry.over_cap", ("fail", "clamp"))
        if callable(idempotent):
            plain_function(idempotent, "retry.idempotent")
        else:
            check_choice(idempotent, "retry.idempotent", ("methods", "any"))
        sends = _attempts(attempts, retries)
        longest = duration(max_retry_after, "retry.max_retry_after")
        vars(self).update(
            attempts=sends,
            refusals=(10 if sends > 1 else 0) if refusals is None else integer(refusals, "retry.refusals", 0),
            backoff=backoff,
            max_retry_after=longest,
            over_cap=over_cap,
            idempotent=idempotent,
            hold_slot=flag(hold_slot, "retry.hold_slot"),
            max_retry_after_ns=as_ns(longest),
        )

    @classmethod
    def of(cls, value: Retry | BackoffFunction | int | None) -> Retry:
        """Return a Retry as it is; a number is `retries`; None the default.

        A function is the `backoff`, and nothing else bounds how often it is asked: it alone ends the retries, by returning
        None or False. What may not be repeated is not sent again even so, and a Retry-After stays the least wait.

        Raises:
            OptionsError: it is none of these.

        Example:
            >>> Retry.of(lambda info: 0.5 if info.index < 5 else None).refusals
            0
        """
        if isinstance(value, Retry):
            return value
        if value is None or isinstance(value, int):
            return cls(retries=value)
        if isinstance(value, type) or not callable(value):
            raise unusable("retry", value, "a Retry(...), a number of retries or a function of RetryInfo")
        return cls(attempts=_UNBOUNDED, refusals=0, backoff=value)

    def repeatable(self, request: Any) -> bool:
        """Return whether a request may be sent again although something of it may have arrived.

        Args:
            request: has `.method`.
        """
        if self.idempotent == "any" or request.method.upper() in IDEMPOTENT_METHODS:
            return True
        return callable(self.idempotent) and flag(self.idempotent(request), "retry.idempotent (function returned)")


class CallState(msgspec.Struct, kw_only=True, gc=False):
    """What one call has been through, the attempt that just ended included; `decide` only reads it.

    Args:
        attempts: sends; 429s are left out unless `Retry(refusals=0)`.
        refusals: 429s.
        refusals_in_a_row: 429s since the last other outcome.
        idempotent: the request may be repeated (`Retry.repeatable`, or the caller said so).
        keyed: it carries an Idempotency-Key that the caller turned on.
        replayable: its body can be sent again.
        deadline: when the caller's limit ends, ns, or None.
        started: when the call began, ns.
    """

    attempts: int = 0
    refusals: int = 0
    refusals_in_a_row: int = 0
    idempotent: bool = False
    keyed: bool = False
    replayable: bool = True
    deadline: int | None = None
    started: int = 0

    def count(self, retry: Retry, outcome: Outcome) -> None:
        """Count one more send; a refusal is counted apart, unless `refusals=0`."""
        if _apart(retry, outcome):
            self.refusals += 1
            self.refusals_in_a_row += 1
        else:
            self.attempts += 1
            self.refusals_in_a_row = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The answer is the call's result, whatever its status."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Send again.

    Args:
        at: not before this time, ns.
        reason: the cause: the status (and, by a caller's rule, what it counts as), or the failure's name.
        pause: hold the whole host until this time, ns; None leaves others alone.
    """

    at: int
    reason: str
    pause: int | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Send no more; the last outcome is the call's result.

    Args:
        reason: why.
        until: end the call as RateLimited with this time, ns; None leaves it the last outcome.
        pause: hold the whole host until this time, ns.
        block: refuse every call to the host until this time, ns.
    """

    reason: Why
    until: int | None = None
    pause: int | None = None
    block: int | None = None


Decision = Done | RetryAt | GiveUp

LONGEST_GUESS = 60 * NS
"""How long a refusal holds the whole host, ns, unless the server asks for longer.

A call's own backoff may have any length, days in a durable delivery; it is a guess, and others never agreed to it.
"""

LONGEST_OUTAGE = 3_600 * NS
"""How long an answer other than a refusal by rate holds the whole host, ns, whatever it asks for.

It tells of a fault, and nobody knows how long that lasts: beyond this only the call itself waits. A 429 tells of a rule.
"""

DONE = Done()


def decide(retry: Retry, call: CallState, outcome: Outcome, now: int, draw: float) -> Decision:
    """Say what follows an attempt.

    Args:
        retry: the rules.
        call: what the call has been through, this attempt counted.
        outcome: how this attempt ended.
        now: the present, ns on the clock of `call`.
        draw: uniform in [0, 1), for the jitter.

    Returns:
        Done, RetryAt or GiveUp; their times are never before `now`.

    Raises:
        OptionsError: a backoff function returned something other than seconds, a timedelta or None.
    """
    status = outcome.meaning
    if status is not None and not asks_again(status):
        return DONE
    if outcome.failure in {"bad", "blocked", "deadline", "cancelled"}:
        return GiveUp(outcome.failure)
    stop = _obstacle(retry, call, outcome)
    hint = None if status is None or outcome.retry_after is None else max(0, outcome.retry_after)
    longest = retry.max_retry_after_ns
    if hint is not None and longest is not None and hint > longest:
        if retry.over_cap == "fail":
            return _too_long(stop, status, now, hint)
        hint = longest
    asked = None if hint is None else now + hint
    held = None if hint is None else now + _held(status, hint)
    if stop is not None:
        if asked is None and status == 429 and isinstance(retry.backoff, Backoff):
            guess = retry.backoff.wait(_index(retry, call, outcome), draw)
            asked = now + min(guess, LONGEST_GUESS)  # others must not run into it too
            held = asked
        return GiveUp(stop, pause=held)
    wait = _wait(retry, call, outcome, now, draw)
    if wait is None:
        return GiveUp("backoff", pause=held)
    if hint is not None:
        wait = hint if _exact(retry, call, outcome) else max(hint, wait)
    at = now + wait
    pause = now + max(hint or 0, min(wait, LONGEST_GUESS)) if status == 429 else held
    if call.deadline is not None and at >= call.deadline:
        named = asked is not None and asked >= call.deadline
        return GiveUp("deadline", until=asked if named else None, pause=pause)
    return RetryAt(at, _cause(outcome), pause)


def _obstacle(retry: Retry, call: CallState, outcome: Outcome) -> Why | None:
    """Say what forbids another send, apart from time."""
    if outcome.sent != "no":
        if not outcome.refused and not (call.idempotent or call.keyed):
            return "method"
        if not call.replayable:
            return "body"
    if outcome.refused and retry.refusals:
        return "refusals" if call.refusals > retry.refusals else None
    return "attempts" if call.attempts >= retry.attempts else None


def _cause(outcome: Outcome) -> str:
    if outcome.counts_as is not None:
        return f"{outcome.status} as {outcome.counts_as}"
    return str(outcome.failure if outcome.status is None else outcome.status)


def _held(status: int | None, hint: int) -> int:
    """Return how long what a server asked for holds the whole host, ns."""
    return hint if status == 429 else min(hint, LONGEST_OUTAGE)


def _too_long(stop: Why | None, status: int | None, now: int, hint: int) -> GiveUp:
    """End a call whose server named a time too far away: the host is blocked until then.

    A refusal by rate is always told as such; another status that would not be retried anyway stays the result.
    """
    block = now + _held(status, hint)
    if stop is not None and status != 429:
        return GiveUp(stop, block=block)
    return GiveUp("retry_after", until=now + hint, block=block)


def _index(retry: Retry, call: CallState, outcome: Outcome) -> int:
    """Return the place in the backoff schedule: refusals that are counted apart have a count of their own."""
    return max(0, (call.refusals_in_a_row if _apart(retry, outcome) else call.attempts) - 1)


def _apart(retry: Retry, outcome: Outcome) -> bool:
    return outcome.refused and retry.refusals > 0


def _exact(retry: Retry, call: CallState, outcome: Outcome) -> bool:
    """Return whether the hint is the wait, rather than the least wait.

    So it is for a refusal by rate, but a server that refuses again after its own time has told too little. With
    `refusals=0` the time that it names always stands; functions get the hint and may wait longer.
    """
    once = not retry.refusals or call.refusals_in_a_row <= 1
    return outcome.refused and once and isinstance(retry.backoff, Backoff)


def _wait(retry: Retry, call: CallState, outcome: Outcome, now: int, draw: float) -> int | None:
    """Return the wait that the backoff gives, ns, or None to give up."""
    index = _index(retry, call, outcome)
    if isinstance(retry.backoff, Backoff):
        return retry.backoff.wait(index, draw)
    hint = outcome.retry_after
    info = RetryInfo(
        index=index,
        attempts=call.attempts,
        refusals=call.refusals,
        status=outcome.status,
        failure=outcome.failure,
        sent=outcome.sent,
        retry_after=None if hint is None else to_seconds(hint),
        elapsed=to_seconds(now - call.started),
    )
    return _told(retry.backoff, info)


def _told(function: BackoffFunction, info: RetryInfo) -> int | None:
    value: object = function(info)
    if value is None or value is False:
        return None
    name = getattr(function, "__qualname__", repr(function))
    if isinstance(value, str):  # "1s" is for options; a function that returns text has a slip in it
        raise OptionsError("retry.backoff", value, "seconds, a timedelta or None", reason=f"{name} returned it")
    return seconds(required(value, f"retry.backoff ({name} returned)"))


def _attempts(attempts: int | None, retries: int | None) -> int:
    if attempts is not None and retries is not None:
        raise OptionsError(
            "retry.retries", retries, hint="give one of the two", reason=f"attempts={attempts} is given too"
        )
    if retries is not None:
        return integer(retries, "retry.retries", 0) + 1
    return 3 if attempts is None else integer(attempts, "retry.attempts", 1)
