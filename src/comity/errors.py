"""Everything comity raises, and the one place where it is defined.

    ComityError
    ├─ OptionsError (ValueError)        an option's value cannot be used; nothing was started
    ├─ BadSignature                     a webhook is not from whom it says, was changed, or is old
    ├─ StoreError                       a journal, database or HAR file refused; nothing acknowledged is lost
    │  └─ LeaseLost                        what a worker held is no longer its own; nothing was changed
    └─ RequestError                     one request did not come to a good end: .request, .attempts
       ├─ NotSent                       ... and no byte of it left
       │  ├─ InvalidRequest (ValueError)   it cannot be sent as it stands
       │  ├─ TargetBlocked                 a guard lets nobody connect there: .rule
       │  ├─ QueueFull                     the limiter's queue is at its bound
       │  ├─ QueueTimeout                  its turn did not come in time: .waited
       │  ├─ ClientClosed                  the client was closed before its turn came
       │  ├─ AuthFailed                    no token could be fetched, or an auth function failed
       │  └─ HostBlocked (Limited)         the host is blocked: .until
       ├─ SendFailed                    ... and no answer came: .sent is "no", "maybe" or "yes"
       │  ├─ ConnectFailed                 no connection: DNS, TCP, TLS or proxy
       │  ├─ TimedOut                      a limit ran out: .phase, .seconds
       │  └─ ConnectionLost                the connection ended before the answer did
       ├─ BadResponse                   an answer came that is broken or cannot be decoded
       ├─ StatusError                   a whole answer came, with an error status: .response
       │  ├─ RateLimited (Limited)         refused by rate; the wait is longer than allowed: .until
       │  └─ RedirectRefused               it leads on to where it may not be followed: .response
       └─ Limited                       the server named a time before which it wants no request: .until

    StackedRetries (UserWarning)         a warning: somebody above retries what was retried here already

No secret stands in a message: URLs pass `comity.redact` before they get here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from comity.policy.attempt import Attempt

Sent = Literal["no", "maybe", "yes"]
StoreReason = Literal["busy", "full", "denied", "corrupt", "schema", "gone", "closed", "failed"]


class ComityError(Exception):
    """Any error of comity. It survives pickling and copying, so it passes between processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way calls the class with the message alone, and these classes need more than a message.
        return _rebuilt, (type(self), self.args, self.__dict__.copy())

    def as_dict(self) -> dict[str, Any]:
        """Return the error as plain values for JSON, without secrets."""
        return {"type": type(self).__name__, "message": str(self)}


class OptionsError(ComityError, ValueError):
    """An option's value cannot be used.

    Args:
        option: the option's name as the user wrote it.
        value: what was given.
        allowed: the allowed range or form, with an example.
        hint: what to do, when more can be said.
        reason: what is wrong, where the range alone does not say it.
        secret: the value may be a secret; it is neither shown nor kept, `value` is "***".
    """

    def __init__(
        self,
        option: str,
        value: object,
        allowed: str = "",
        hint: str = "",
        *,
        reason: str = "",
        secret: bool = False,
    ) -> None:
        self.option, self.value = option, "***" if secret else value
        self.allowed, self.hint, self.reason = allowed, hint, reason
        said = [reason, f"it needs {allowed}" if allowed else "", hint]
        # An option of the command line that was not given has no value to show.
        missing = value is None and option.startswith("--")
        shown = option if secret else f"{option}={value!r}"
        what = f"{option} is missing" if missing else f"{shown} cannot be used"
        super().__init__(f"{what}: {'; '.join(filter(None, said))}")


class BadSignature(ComityError):
    """A webhook is not from whom it says, was changed on the way, or is too old."""


class StoreError(ComityError):
    """A journal, a database or a HAR file refused or could not be written.

    Attributes:
        reason: why a database refused: "busy" (another process has it), "full", "denied", "corrupt", "schema" (older or
            newer than this version's), "gone" (its file was deleted or replaced), "closed" or "failed"; of others always "failed".
    """

    def __init__(self, message: str, *, reason: StoreReason = "failed") -> None:
        super().__init__(message)
        self.reason: StoreReason = reason


class LeaseLost(StoreError):
    """What a worker held is no longer its own: its lease was rescued, or the delivery cancelled, given back or pruned."""


class RequestError(ComityError):
    """One request did not come to a good end.

    Attributes:
        request: the request as it was given; for a bare Limiter None.
        attempts: every wire attempt, in order; empty when nothing was sent.
        history: the answers that led here, when redirects were followed, cookies redacted; each with its attempts.
        retryable: whether another call later may succeed.
    """

    retryable = False
    history: tuple[Any, ...] = ()

    def __init__(self, message: str, *, request: Any = None, attempts: Sequence[Attempt] = ()) -> None:
        super().__init__(message)
        self.request = request
        self.attempts: tuple[Attempt, ...] = tuple(attempts)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as plain values for JSON: no request, headers or body, so no secrets.

        Keys are type, message, retryable, sent ("no", "maybe" or "yes"), phase, status_code, retry_after (seconds),
        until (ISO 8601, UTC) and attempts; what an error does not have is None.
        """
        until: datetime | None = getattr(self, "until", None)
        last = self.attempts[-1].sent if self.attempts else None
        return super().as_dict() | {
            "retryable": self.retryable,
            "sent": getattr(self, "sent", last),
            "phase": getattr(self, "phase", None),
            "status_code": getattr(self, "status_code", None),
            "retry_after": getattr(self, "retry_after", None),
            "until": None if until is None else until.isoformat(),
            "attempts": [attempt.as_dict() for attempt in self.attempts],
        }


class NotSent(RequestError):
    """No byte of the (last) attempt left this machine; sending again is safe."""

    sent: Sent = "no"


class InvalidRequest(NotSent, ValueError):
    """The request cannot be sent as it stands; it is never retried."""


class TargetBlocked(NotSent):
    """A guard lets nobody connect to the target; it is never retried.

    Attributes:
        rule: why; it names no address, as what a name leads to may be an inside matter.
    """

    def __init__(self, message: str, *, rule: str, **common: Any) -> None:
        super().__init__(message, **common)
        self.rule = rule


class QueueFull(NotSent):
    """The limiter's queue is at its bound (`max_queue`)."""

    retryable = True


class QueueTimeout(NotSent):
    """The request's turn did not come in time.

    Attributes:
        waited: seconds spent in the queue.
        needed: seconds that it would have had to wait from then on, when that is known.
    """

    retryable = True

    def __init__(self, message: str, *, waited: float, needed: float | None = None, **common: Any) -> None:
        super().__init__(message, **common)
        self.waited, self.needed = waited, needed


class ClientClosed(NotSent):
    """The client was closed before the request's turn came."""


class AuthFailed(NotSent):
    """What says who asks could not be had: a token source or an auth function failed."""

    retryable = True


class SendFailed(RequestError):
    """No answer came.

    Attributes:
        sent: "no" (nothing left), "maybe" (bytes were handed to the socket, their fate is unknown) or "yes".
    """

    retryable = True

    def __init__(self, message: str, *, sent: Sent, **common: Any) -> None:
        super().__init__(message, **common)
        self.sent: Sent = sent


class ConnectFailed(SendFailed):
    """No connection came about: name lookup, TCP, TLS or proxy.

    Attributes:
        phase: where it failed, as in `Timings`: "dns", "connect" (a proxy's refusal included) or "tls".
        code: what failed, for programs: "EAI_NONAME", "ECONNREFUSED", "CERTIFICATE_VERIFY_FAILED", a proxy's "407";
            "" when there is no word for it.
    """

    def __init__(
        self, message: str, *, sent: Sent = "no", phase: str = "connect", code: str = "", **common: Any
    ) -> None:
        super().__init__(message, sent=sent, **common)
        self.phase, self.code = phase, code


class TimedOut(SendFailed):
    """A time limit ran out.

    Attributes:
        phase: which limit: "connect", "send", "request", "response", "idle", "attempt" or "deadline".
        seconds: that limit.
    """

    def __init__(self, message: str, *, phase: str, seconds: float, sent: Sent, **common: Any) -> None:
        super().__init__(message, sent=sent, **common)
        self.phase, self.seconds = phase, seconds


class ConnectionLost(SendFailed):
    """The connection ended before the answer did."""


class BadResponse(RequestError):
    """An answer came that is broken (truncated, garbage) or that cannot be decoded.

    Attributes:
        response: the answer, or only its head, with an empty body, when the body is what is broken; None when not even
            the head came.
    """

    sent: Sent = "yes"

    def __init__(self, message: str, *, response: Any = None, **common: Any) -> None:
        super().__init__(message, **common)
        self.response = response


class Limited(RequestError):
    """The server named a time before which it wants no request.

    Attributes:
        until: that time, UTC.
        retry_after: seconds from the moment of the error until then.
    """

    retryable = True

    def __init__(self, message: str, *, until: datetime, retry_after: float, **common: Any) -> None:
        super().__init__(message, **common)
        self.until, self.retry_after = until, retry_after


class HostBlocked(Limited, NotSent):
    """An earlier answer blocked the host until `until`; nothing was sent."""


class StatusError(RequestError):
    """A whole answer came, with an error status.

    Attributes:
        response: the answer; `status_code`, `headers` (cookies redacted) and `body` (text) are taken from it.
        retry_after: seconds that a 429 or 503 asked to wait, or None.
    """

    retry_after: float | None

    def __init__(
        self,
        message: str,
        *,
        response: Any,
        retry_after: float | None = None,
        retryable: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(message, **common)
        self.response, self.retry_after, self.retryable = response, retry_after, retryable
        self.status_code: int = response.status_code

    @property
    def headers(self) -> Any:
        """The answer's headers; `set-cookie` stays redacted whatever the request asked for."""
        return self.response.headers

    @property
    def body(self) -> str:
        """The answer's body as text."""
        text: str = self.response.text
        return text


class RateLimited(Limited, StatusError):
    """An answer refused the request by rate, with a wait longer than allowed; the host is blocked until `until`."""

    retry_after: float

    def __init__(self, message: str, *, response: Any, until: datetime, retry_after: float, **common: Any) -> None:
        super().__init__(message, response=response, until=until, retry_after=retry_after, retryable=True, **common)


class RedirectRefused(StatusError):
    """An answer leads on to where it may not be followed: too far, in a circle, from https to http, to no URL.

    It is raised whatever `raise_for` says: who asks for redirects to be followed asks for what stands at their end.
    """


class StackedRetries(UserWarning):
    """Two layers retry the same request, one above the other, so that their sends multiply; one of them is to be switched off."""


def _rebuilt(kind: type[ComityError], args: tuple[Any, ...], state: dict[str, Any]) -> ComityError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error
