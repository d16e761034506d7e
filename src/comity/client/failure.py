"""Failure: the one place where what others raise becomes an error of comity.

Whether anything was sent comes from what was written, never from the kind of exception:

    no      not a byte was handed to the socket
    yes     the whole request was taken by the kernel, on a connection that was fresh, or that answered, or still stood
    maybe   only a part was, or the connection had been used before and ended without an answer: the server may have
            closed it before it saw the request
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from dataclasses import dataclass

from aiohttp.http_exceptions import HttpProcessingError

from comity import redact
from comity.client.codings import Damaged, Undecodable
from comity.client.guard import Objected
from comity.client.proxy import ProxyFailed
from comity.client.request import Request
from comity.client.tls import explain
from comity.client.watch import Expired
from comity.client.wire import Broken
from comity.engine.moments import seconds_text
from comity.errors import BadResponse, ConnectFailed, ConnectionLost, RequestError, Sent, TargetBlocked, TimedOut
from comity.policy.outcome import Failure

_BYTES = re.compile(r": b['\"]")
_LOOKUP_CODES = {value: name for name, value in vars(socket).items() if name.startswith("EAI_")}


@dataclass(slots=True, kw_only=True)
class AttemptProgress:
    """How far an attempt came.

    Args:
        connected: there was a connection.
        reused: it had carried a request before.
        handed: bytes were handed to the socket.
        whole: the kernel took the whole request.
        answering: the answer has begun.
        body: what is known about its body, for people ("5 of 20 bytes").
        phase: in which phase the attempt ended.
        proxy: the proxy that the connection goes through, for people; "" when there is none.
    """

    connected: bool = False
    reused: bool = False
    handed: bool = False
    whole: bool = False
    answering: bool = False
    body: str = ""
    phase: str = "pool"
    proxy: str = ""

    def sent(self, *, ended: bool) -> Sent:
        """Return whether the request was sent; `ended`: its connection ended by itself."""
        if not self.handed:
            return "no"
        if self.answering:
            return "yes"
        return "yes" if self.whole and not (ended and self.reused) else "maybe"


def translate(error: Exception, progress: AttemptProgress, request: Request) -> tuple[Failure, Sent, RequestError]:
    """Return what an attempt that raised `error` came to: the failure, whether it was sent, and the error to raise."""
    line = request.line
    if isinstance(error, Expired):
        return _expired(error, progress, request)
    if isinstance(error, (Undecodable, Broken, HttpProcessingError)):
        text = f"{line}: the answer cannot be used: {_detail(error)}"
        return "bad", "yes", BadResponse(text, request=request)
    if isinstance(error, Damaged):
        return "truncated", "yes", BadResponse(f"{line}: the answer is damaged: {error}", request=request)
    if isinstance(error, Objected):
        text = f"{line}: the guard lets nobody connect there ({error.rule}); nothing was sent"
        return "blocked", "no", TargetBlocked(text, rule=error.rule, request=request)
    if not progress.connected:
        host = request.address.origin.authority
        text = f"{line}: no connection to {host}{_way(progress)} ({_detail(error)}); nothing was sent"
        return "connect", "no", ConnectFailed(text, phase=progress.phase, code=_code(error), request=request)
    sent = progress.sent(ended=True)
    if progress.answering:
        got = f" after {progress.body}" if progress.body else " within its head"
        return "truncated", sent, BadResponse(f"{line}: the connection ended within the answer,{got}", request=request)
    text = f"{line}: the connection ended before the answer ({_detail(error)}); {_fate(sent)}"
    return "lost", sent, ConnectionLost(text, sent=sent, request=request)


def _expired(error: Expired, progress: AttemptProgress, request: Request) -> tuple[Failure, Sent, RequestError]:
    sent, seconds = progress.sent(ended=False), error.limit / 1e9
    way = "" if progress.connected or not progress.proxy else f" while connecting{_way(progress)}"
    if error.phase == "deadline":
        text = f"{request.line}: the deadline passed{way}; {_fate(sent)}"
    else:
        text = f"{request.line}: the limit {error.phase}={seconds_text(seconds)} s ran out{way}; {_fate(sent)}"
    failure: Failure = "deadline" if error.phase == "deadline" else "timeout"
    return failure, sent, TimedOut(text, phase=error.phase, seconds=seconds, sent=sent, request=request)


def _fate(sent: Sent) -> str:
    if sent == "no":
        return "nothing was sent"
    word = "was sent" if sent == "yes" else "may have been sent"
    return f"the request {word}, its outcome is unknown"


def _way(progress: AttemptProgress) -> str:
    return f" through the proxy {progress.proxy}" if progress.proxy else ""


def _code(error: Exception) -> str:
    """Return the name that the system, OpenSSL or a proxy has for what happened."""
    if isinstance(error, ProxyFailed):
        return error.code
    if isinstance(error, ssl.SSLError):
        return error.reason or ""
    number = getattr(error, "errno", None)
    names = _LOOKUP_CODES if isinstance(error, socket.gaierror) else errno.errorcode
    return names.get(number, "") if isinstance(number, int) else ""


def _detail(error: Exception) -> str:
    """Return what happened in a few words: no bytes of the answer, no secret."""
    if isinstance(error, HttpProcessingError):
        text = str(error.message)
    elif isinstance(error, ssl.SSLError) and error.reason:
        text = explain(error)
    else:
        text = str(error) or type(error).__name__
    first = _BYTES.split(text.strip().split("\n", 1)[0], 1)[0].rstrip(":")
    return redact.text(first[:200])
