"""Clients: each HTTP client that is compared, as a context manager whose value makes one GET and reads its body.

Each measures as much of its own time as it does unasked:

    comity, its transport    every phase: queue, pool, dns, connect, tls, upload, response, download
    httpx, httpx2            one duration, from sending to the end of the body (`Response.elapsed`)
    aiohttp, undici          nothing
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, cast

from benchmarks import peers
from comity import AsyncClient, Request, Timeout
from comity.client.aiohttp_transport import AiohttpTransport
from comity.client.base import Base
from comity.client.headers import Headers
from comity.client.response import Response
from comity.client.transport import Transport
from comity.engine.call import Exchange, Slot
from comity.policy.outcome import Outcome

MOST = 500
"""Requests in flight at most."""

Get = Callable[[], Awaitable[object]]
Client = Callable[[str, str], AbstractAsyncContextManager[Get]]
"""Takes a server's URL, without a slash at the end, and a path."""


class Instant:
    """A transport that has every answer at hand: what is left is what comity does around a transport."""

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:  # noqa: ARG002 - as a Transport
        """Answer at once."""
        slot.time_left()
        slot.sent()
        slot.answered()
        answer = Response(200, Headers([("content-type", "application/json")]), b"{}", request=request)
        return Exchange(outcome=Outcome(status=200), value=answer)

    async def aclose(self) -> None:
        """There is nothing to close."""


@asynccontextmanager
async def comity(url: str, path: str, *, over: Transport | None = None) -> AsyncIterator[Get]:
    """Run a client with everything on: two rates, a bound, retries, all timeouts and a deadline; nothing waits."""
    limits = Timeout(request=30, attempt=60)
    rates = ["90000/s", "5000000/min"]
    async with AsyncClient(url, rate=rates, concurrency=MOST, timeout=limits, deadline=60, transport=over) as client:
        yield partial(client.get, path)


@asynccontextmanager
async def transport(url: str, path: str, *, alone: Transport | None = None) -> AsyncIterator[Get]:
    """The same bytes on the wire, from a new request each time; no policy."""
    alone = alone or AiohttpTransport()
    limits, slot, headers = Timeout(), cast("Slot", _FreeSlot()), Base(url, None).place(url)[1]
    yield lambda: alone.send(Request("GET", f"{url}{path}", defaults=headers), limits, slot)
    await alone.aclose()


class _FreeSlot:
    """A Slot of no limiter."""

    number = 1
    deadline = None

    def sent(self) -> None: ...
    def answered(self) -> None: ...
    def hear(self, status: int, headers: object) -> None: ...

    @staticmethod
    def time_left() -> None: ...


@asynccontextmanager
async def aiohttp(url: str, path: str) -> AsyncIterator[Get]:
    """Run a session with as many connections as are in flight."""
    module = peers.need("aiohttp")
    async with module.ClientSession(connector=module.TCPConnector(limit=0)) as session:

        async def get() -> object:
            async with session.get(f"{url}{path}") as response:
                return await response.read()

        yield get


@asynccontextmanager
async def httpx(url: str, path: str, *, module: str = "httpx", **options: Any) -> AsyncIterator[Get]:
    """Run httpx, or httpx2, with its own pool: 100 connections, of which 20 are kept. A larger one makes it slower.

    Only its timeout is longer, as at 500 in flight most of them wait for that pool.
    """
    async with peers.need(module).AsyncClient(timeout=60, trust_env=False, **options) as client:
        yield partial(client.get, f"{url}{path}")


@asynccontextmanager
async def httpx_retries(url: str, path: str) -> AsyncIterator[Get]:
    """Run httpx with retries."""
    async with httpx(url, path, transport=peers.need("httpx_retries").RetryTransport()) as get:
        yield get


httpx2: Client = partial(httpx, module="httpx2")
