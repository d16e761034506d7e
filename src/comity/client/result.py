"""Result: from how a call was settled to the answer, or the error, that the caller gets."""

from __future__ import annotations

from comity.client.options import RaiseFor
from comity.client.request import Request
from comity.client.response import Response
from comity.engine.call import Settled
from comity.engine.clock import Clock
from comity.engine.moments import moment, until_text
from comity.errors import RateLimited, RequestError, TimedOut
from comity.policy.attempt import Attempt


def result(
    request: Request, settled: Settled[Response], raise_for: RaiseFor, clock: Clock, deadline: float | None
) -> Response:
    """Return the answer of a settled call.

    Args:
        request: what was sent.
        settled: how it ended.
        raise_for: which answers are errors.
        clock: on which `settled.until` is.
        deadline: of the whole call, seconds; the transport knew only what was left of it.

    Raises:
        RateLimited: the server asked for a longer wait than allowed, whatever `raise_for` says.
        SendFailed, BadResponse: no whole, sound answer came.
        StatusError: an answer that `raise_for` names.
    """
    response, attempts = settled.value, settled.attempts
    if response is None:
        assert settled.error is not None
        raise _failed(settled.error, attempts, deadline)
    response.attempts = attempts
    response.timings = attempts[-1].timings
    if settled.until is not None:
        raise _limited(request, response, settled.until, clock)
    if settled.error is not None:
        raise _failed(settled.error, attempts, deadline)
    counts_as = settled.outcome.counts_as
    if named(response.status_code if counts_as is None else counts_as, raise_for):
        raise response.error(counts_as)
    return response


def named(status: int, raise_for: RaiseFor) -> bool:
    """Return whether answers of a status are errors."""
    return not (raise_for == "never" or 200 <= status < 300 or (raise_for == "error" and status < 400))


def _failed(error: RequestError, attempts: tuple[Attempt, ...], deadline: float | None) -> RequestError:
    error.attempts = attempts
    if isinstance(error, TimedOut) and error.phase == "deadline" and deadline is not None:
        error.seconds = deadline
    return error


def _limited(request: Request, response: Response, until: int, clock: Clock) -> RateLimited:
    wait = max(0, until - clock.now()) / 1e9
    when = moment(clock, until)
    return RateLimited(
        f"{response.line}; it wants no request before {until_text(when, wait)}, "
        "which is longer than this call may wait",
        response=response.masked(),
        until=when,
        retry_after=wait,
        request=request,
        attempts=response.attempts,
    )
