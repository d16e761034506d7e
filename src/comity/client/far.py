"""Far: a transport and auth that live in another thread's loop, for a client that stands in its caller's thread."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from comity.client.auth import Auth, Renewing
from comity.client.headers import Given
from comity.client.loop_thread import LoopThread
from comity.client.request import Request
from comity.client.response import Response
from comity.client.transport import Transport, opening
from comity.engine.call import Exchange, Slot
from comity.engine.clock import Clock
from comity.engine.held import Opened
from comity.errors import BadResponse, ClientClosed, ConnectionLost
from comity.policy.outcome import Outcome
from comity.policy.timeouts import Timeout


class FarTransport:
    """A transport in another thread's loop.

    Args:
        transport: what sends.
        thread: where the loop is.
    """

    def __init__(self, transport: Transport, thread: LoopThread) -> None:
        self._transport, self._thread = transport, thread

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:
        """Make one wire attempt; see `Transport.send`."""
        try:
            return await self._thread.reach(self._transport.send(request, limits, slot))
        except ClientClosed:
            if not slot.begun:
                raise
            return _cut(request)

    async def open(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response] | Opened[Response]:
        """Make one wire attempt up to the answer's head; see `Opens.open`."""
        transport = opening(self._transport)
        opened: list[Exchange[Response] | Opened[Response]] = []

        async def far() -> None:
            opened.append(await transport.open(request, limits, slot))

        try:
            await self._thread.reach(far())
        except ClientClosed:
            if not slot.begun:
                raise
            return _cut(request)
        except BaseException:
            for each in opened:  # the wait was interrupted when it was there already
                if not isinstance(each, Exchange):
                    await self._thread.reach(each.abort())
            raise
        return opened[0] if isinstance(opened[0], Exchange) else _FarOpened(opened[0], self._thread)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._thread.reach(self._transport.aclose())


class _FarOpened:
    """An answer that is read in another thread's loop."""

    def __init__(self, opened: Opened[Response], thread: LoopThread) -> None:
        self._opened, self._thread = opened, thread
        self._cut: Exchange[Response] | None = None
        self.head = opened.head

    @property
    def exchange(self) -> Exchange[Response] | None:
        return self._cut or self._opened.exchange

    async def chunk(self) -> bytes:
        try:
            return await self._thread.reach(self._opened.chunk())
        except ClientClosed:
            self._cut = _cut_within(self.head)
            return b""

    async def read(self) -> Exchange[Response]:
        return await self._ended(self._opened.read())

    async def abort(self) -> Exchange[Response]:
        return await self._ended(self._opened.abort())

    async def _ended(self, end: Coroutine[Any, Any, Exchange[Response]]) -> Exchange[Response]:
        try:
            return await self._thread.reach(end)
        except ClientClosed:
            return self._opened.exchange or _cut_within(self.head)

    def drop(self) -> None:
        self._opened.drop()


def _cut(request: Request) -> Exchange[Response]:
    """Return what an attempt came to whose loop ended under it, as at a `close` that was interrupted."""
    text = f"{request.line}: the client was closed before the answer; the request may have been sent, its outcome is unknown"
    lost = ConnectionLost(text, sent="maybe", request=request)
    return Exchange(outcome=Outcome(failure="lost", sent="maybe"), error=lost)


def _cut_within(head: Response) -> Exchange[Response]:
    error = BadResponse(f"{head.line}; the client was closed within the answer", request=head.request)
    error.response = head.masked()
    return Exchange(outcome=Outcome(failure="truncated", sent="yes"), error=error)


def far_auth(auth: Auth, thread: LoopThread) -> Auth:
    """Return auth whose functions, perhaps coroutines, are called in another thread's loop."""
    if isinstance(auth, (_FarAuth, _FarRenewing)):
        return auth
    return _FarRenewing(auth, thread) if isinstance(auth, Renewing) else _FarAuth(auth, thread)


class _FarAuth(Auth):
    """Auth in another thread's loop."""

    def __init__(self, auth: Auth, thread: LoopThread) -> None:
        self._auth, self._thread = auth, thread

    async def headers(self, request: Request) -> Given:
        return await self._thread.reach(self._auth.headers(request))


class _FarRenewing(Renewing):
    """Auth that is fetched in another thread's loop."""

    def __init__(self, auth: Renewing, thread: LoopThread) -> None:
        self._auth, self._thread = auth, thread

    async def headers(self, request: Request) -> Given:
        return await self._auth.headers(request)  # what was fetched is there: nothing is waited for

    def stale(self, clock: Clock) -> bool:
        return self._auth.stale(clock)

    async def renew(self, clock: Clock, refused: Given) -> str:
        return await self._thread.reach(self._auth.renew(clock, refused))

    async def renew_within(self, left: float | None, clock: Clock, refused: Given) -> str:
        return await self._thread.reach(self._auth.renew_within(left, clock, refused))
