"""Receiver: a server on this machine that takes deliveries and notes when each came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import cast

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Receiver:
    """What came.

    Args:
        silent: it never answers.

    Attributes:
        port: on every loopback address.
        came: path -> when it came first, seconds of perf_counter.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.silent = silent
        self.port = 0
        self.came: dict[str, float] = {}
        self._more = asyncio.Event()

    async def until(self, many: int) -> None:
        """Return when so many paths have come."""
        while len(self.came) < many:
            self._more.clear()
            await self._more.wait()

    def take(self, path: str) -> None:
        """Note that a delivery came."""
        self.came.setdefault(path, perf_counter())
        self._more.set()


class _Connection(asyncio.Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        while _END in self._got:
            head, _, rest = self._got.partition(_END)
            _, mark, told = head.lower().partition(_LENGTH)
            length = int(told.partition(b"\r\n")[0]) if mark else 0
            if len(rest) < length:
                return
            self._got = rest[length:]
            path = head.split(b" ", 2)[1].decode()
            self._receiver.take(path)
            if not self._receiver.silent:
                self._transport.write(_OK)


@asynccontextmanager
async def receiving(*, silent: bool = False) -> AsyncIterator[Receiver]:
    """Run a receiver for the length of a block."""
    receiver = Receiver(silent=silent)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(_Connection, receiver), "0.0.0.0", 0, backlog=1024)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
