"""Server: uvicorn, inside an event loop of ours, with signals and logs left to whoever runs it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from comity.errors import ComityError
from comity.web.protocol import Protocol

_KEEP_ALIVE = 75
_BACKLOG = 2048


class CannotListen(ComityError):
    """The address cannot be listened on."""


class Served:
    """An application that is served.

    Args:
        url: where.
        running: what serves it.
    """

    def __init__(self, url: str, running: asyncio.Task[None]) -> None:
        self.url, self._running = url, running

    async def over(self) -> None:
        """Return when it is served no longer, which does not come by itself.

        Raises:
            Exception: what the server failed with.
        """
        await asyncio.wait([self._running])
        self._running.result()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    grace: float = 10.0,
    before_end: Callable[[], None] | None = None,
    hurried: asyncio.Event | None = None,
) -> AsyncIterator[Served]:
    """Serve an application for the length of a block.

    At the end no new connections are taken, and what is being answered may finish.

    Args:
        app: what is served.
        host: an address of this machine.
        port: where; 0 takes a free one.
        grace: seconds that answers may still take at the end.
        before_end: told that it ends, so that long answers can be cut short.
        hurried: cuts that short, when it is set.

    Raises:
        CannotListen: on this address.
    """
    listener = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=Protocol,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        address = listener.getsockname()
        url = f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}"
        yield Served(url, running)
    finally:
        if before_end is not None:
            before_end()
        server.should_exit = True
        hurry = asyncio.create_task(_hurry(server, hurried or asyncio.Event()))
        try:
            await running
        finally:
            hurry.cancel()
            listener.close()


async def _hurry(server: uvicorn.Server, hurried: asyncio.Event) -> None:
    await hurried.wait()
    server.force_exit = True


def _listen(host: str, port: int) -> socket.socket:
    bare = host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}, port {port}: {error.strerror}; --port 0 takes a free one"
        ) from None
    listener.setblocking(False)
    return listener
