"""ScriptedTransport: answers from a script instead of the wire, for tests of programs that use a client.

Example:
    >>> from comity import AsyncClient
    >>> from comity.testing import VirtualClock
    >>> async def first_user(clock, transport):
    ...     async with AsyncClient("https://api.example", clock=clock, transport=transport, deadline="1min") as api:
    ...         return (await api.get("/users/1")).data
    >>> clock, transport = VirtualClock(), ScriptedTransport(503, "lost", Answer(json={"id": 1}, after=0.3))
    >>> clock.run(first_user(clock, transport))
    {'id': 1}
    >>> [request.method for request in transport.requests]
    ['GET', 'GET', 'GET']
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from comity import redact
from comity.client.headers import Headers
from comity.client.read import Read
from comity.client.request import Request
from comity.client.response import Response
from comity.engine.call import Exchange, Slot
from comity.engine.moments import seconds_text
from comity.errors import BadResponse, ConnectFailed, ConnectionLost, RequestError, Sent, TimedOut
from comity.policy.attempt import Timings
from comity.policy.outcome import Outcome, asks_again
from comity.policy.timeouts import Timeout
from comity.policy.units import NS, Seconds, required, seconds

Fault = Literal["connect", "lost", "truncated"]
"""No connection; the connection ended before the answer; it ended within the answer's body."""


@dataclass(frozen=True)
class Answer:
    """One scripted answer.

    Args:
        status: its status code.
        json: its body as a JSON value; sets Content-Type.
        content: its body as bytes, instead of `json`.
        headers: its headers.
        after: seconds (or text) from the request until the answer; a limit of the attempt that is shorter ends it first.
        fault: what happens instead of an answer.
    """

    status: int = 200
    json: Any = None
    content: bytes = b""
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
    after: Seconds = 0.0
    fault: Fault | None = None


Scripted = int | Fault | Answer
"""A status, a fault, or an Answer."""


class ScriptedTransport:
    """A transport that never touches a socket.

    Args:
        script: one entry per request, in order; or one function of the request that returns an entry.

    Attributes:
        requests: what was sent, in order.
    """

    def __init__(self, *script: Scripted | Callable[[Request], Scripted]) -> None:
        self.requests: list[Request] = []
        self._answer = script[0] if len(script) == 1 and callable(script[0]) else _Script(script)

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:
        """Answer from the script.

        Raises:
            AssertionError: the script has no more entries.
        """
        opened = await self.open(request, limits, slot)
        return opened if isinstance(opened, Exchange) else await opened.read()

    async def open(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response] | Read:
        """Answer from the script up to the head; "truncated" ends the body behind its content."""
        self.requests.append(request)
        answer = _entry(self._answer(request))
        if answer.fault == "connect":
            return _failed("connect", "no", ConnectFailed(f"{request.method}: scripted", request=request))
        slot.sent()
        wait = seconds(required(answer.after, "after"))
        limit, phase = self._limit(limits, slot)
        await asyncio.sleep(min(wait, limit) / NS)
        if wait >= limit:
            text = f"{request.method}: scripted to answer after {seconds_text(wait / NS)} s; the {phase} limit ended it"
            error = TimedOut(text, phase=phase, seconds=limit / NS, sent="yes", request=request)
            return _failed("deadline" if phase == "deadline" else "timeout", "yes", error)
        if answer.fault == "lost":
            return _failed("lost", "yes", ConnectionLost(f"{request.method}: scripted", sent="yes", request=request))
        slot.answered()
        timings = Timings(response=wait / NS)
        response = _response(answer, request, timings)
        if answer.status != 200:
            slot.hear(answer.status, response.headers.pairs)
        if answer.fault == "truncated":
            head = response if asks_again(answer.status) else None
            broken = BadResponse(f"{request.method}: scripted", request=request)
            return Read(response, _failed("truncated", "yes", broken, head))
        return Read(response, Exchange(outcome=Outcome(status=answer.status), value=response, timings=timings))

    async def aclose(self) -> None:
        """Close nothing."""

    @staticmethod
    def _limit(limits: Timeout, slot: Slot) -> tuple[int, str]:
        """Return the first limit that would end a silent attempt, ns from now, and its name."""
        named = ((limits.response_ns, "response"), (limits.attempt_ns, "attempt"), (slot.time_left(), "deadline"))
        return min(((limit, name) for limit, name in named if limit is not None), default=(1 << 62, ""))


class _Script:
    """Entries, one a request."""

    def __init__(self, entries: tuple[Any, ...]) -> None:
        self._entries = deque(entries)

    def __call__(self, request: Request) -> Scripted:
        if not self._entries:
            raise AssertionError(f"the script is at its end, and yet came {request!r}")
        entry: Scripted = self._entries.popleft()
        return entry


def _entry(entry: Scripted) -> Answer:
    if isinstance(entry, Answer):
        return entry
    return Answer(entry) if isinstance(entry, int) else Answer(fault=entry)


def _response(answer: Answer, request: Request, timings: Timings) -> Response:
    pairs = list(answer.headers.items() if isinstance(answer.headers, Mapping) else answer.headers)
    content = answer.content
    if answer.json is not None:
        content = msgspec.json.encode(answer.json)
        pairs.insert(0, ("Content-Type", "application/json"))
    headers = Headers(pairs if request.expose_cookies else redact.cookies(pairs))
    return Response(answer.status, headers, content, request=request, timings=timings)


def _failed(
    failure: Literal["connect", "lost", "truncated", "timeout", "deadline"],
    sent: Sent,
    error: RequestError,
    head: Response | None = None,
) -> Exchange[Response]:
    return Exchange(outcome=Outcome(failure=failure, sent=sent), value=head, error=error)
