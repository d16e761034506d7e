"""Family: httpx and httpx2 are one library under two names; what comity needs of either stands here once.

Errors pass in both directions, and in this place alone:

    in     what the wire raised becomes an outcome and an error of comity, by which the policy decides
    out    a turn that did not come becomes what httpx raises when no connection can be had, as a program that was written
           for httpx looks out for its errors alone

The error of comity is always the `__cause__` of what is raised, with the attempts.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from comity import redact
from comity.engine.call import Exchange
from comity.engine.moments import seconds_text
from comity.errors import (
    BadResponse,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    InvalidRequest,
    RequestError,
    Sent,
    TimedOut,
)
from comity.integrations.limits import Limits
from comity.integrations.progress import Progress
from comity.policy.outcome import Failure, Outcome

BUFFERED = 16 * 1024 * 1024
"""A body that is a stream but says its length is read and kept up to so many bytes, as it can be sent again then."""

_PHASES = {"ConnectTimeout": "connect", "PoolTimeout": "connect", "WriteTimeout": "send"}
_OWN = {"connect": "connect", "send": "write", "response": "read", "idle": "read"}


class Family:
    """One library of the family.

    Args:
        library: its module.

    Attributes:
        library: likewise.
        failed: what its wire raises.
    """

    def __init__(self, library: ModuleType) -> None:
        self.library: Any = library
        self.failed: type[Exception] = library.TransportError
        self._unsendable = (library.UnsupportedProtocol, library.LocalProtocolError)
        self._before = (library.ConnectError, library.ConnectTimeout, library.PoolTimeout, library.ProxyError)

    def wire(self, kind: str) -> Any:
        """Return a transport of the library's own, "HTTPTransport" or "AsyncHTTPTransport".

        It has no bound of its own on connections: the limits of the policy are the only queue.
        """
        limits = self.library.Limits(max_connections=None, max_keepalive_connections=None)
        return getattr(self.library, kind)(limits=limits)

    def readable(self, request: Any) -> bool:
        """Return whether to read a request's body before it is sent: it is there, or of a known, moderate length."""
        length = request.headers.get("content-length", "")
        known = length.isascii() and length.isdigit()
        return isinstance(request.stream, self.library.ByteStream) or (known and int(length) <= BUFFERED)

    def content(self, request: Any) -> bytes | None:
        """Return the body of a request, None for a stream, which cannot be sent twice."""
        if not isinstance(request.stream, self.library.ByteStream):
            return None
        content: bytes = request.content
        return content

    def refusal(self, error: RequestError) -> Exception:
        """Return what to raise for a request whose turn did not come; `error` is to be its cause."""
        if isinstance(error, ClientClosed):
            return RuntimeError(str(error))  # what httpx raises of a closed client
        refused: Exception = self.library.PoolTimeout(str(error))
        return refused

    def overdue(self, limits: Limits, progress: Progress) -> Exception:
        """Return what the wire would have raised, had it known the limit of the whole send."""
        kind = self.library.ReadTimeout if progress.handing or not progress.told else self.library.ConnectTimeout
        error: Exception = kind(f"the limit {limits.whole}={seconds_text(limits.seconds or 0)} s ran out")
        return error

    def failure(
        self, error: Exception, request: Any, limits: Limits, progress: Progress, status: int | None
    ) -> Exchange[Any]:
        """Return what a send came to that ended in `error`.

        Args:
            error: what the wire raised.
            request: httpx's.
            limits: of the send.
            progress: of the send.
            status: of the answer whose body broke, if one came.
        """
        timings, timed_out = progress.time.stop(), isinstance(error, self.library.TimeoutException)
        early = isinstance(error, (*self._before, *self._unsendable))
        refused = isinstance(error, self._unsendable)
        sent: Sent = "no" if refused else progress.sent(ended=not timed_out, before=early)
        told = f"{request.method} {redact.url(str(request.url))}: {redact.text(str(error)) or type(error).__name__}"
        fate = {
            "no": "nothing was sent",
            "maybe": "it may have been sent",
            "yes": "it was sent, its outcome is unknown",
        }
        text = f"{told}; {fate[sent]}" if status is None else told
        failure, raised = self._meaning(error, text, limits, sent, status)
        raised.request, raised.__cause__ = request, error.__cause__
        return Exchange(outcome=Outcome(failure=failure, sent=sent), error=raised, timings=timings)

    def _meaning(
        self, error: Exception, text: str, limits: Limits, sent: Sent, status: int | None
    ) -> tuple[Failure, RequestError]:
        """Return why no whole answer came, and the error that says so."""
        if isinstance(error, self.library.TimeoutException):
            if limits.over:
                failure: Failure = "deadline" if limits.whole == "deadline" else "timeout"
                return failure, TimedOut(text, phase=limits.whole, seconds=limits.seconds or 0.0, sent=sent)
            phase = _PHASES.get(type(error).__name__, "response" if status is None else "idle")
            return "timeout", TimedOut(text, phase=phase, seconds=limits.phases[_OWN[phase]] or 0.0, sent=sent)
        if isinstance(error, self._unsendable):
            return "bad", InvalidRequest(text)
        if status is not None:
            return "truncated", BadResponse(text)
        if isinstance(error, self._before):
            return "connect", ConnectFailed(text, sent=sent)
        return "lost", ConnectionLost(text, sent=sent)
