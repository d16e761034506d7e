"""A loopback proxy that opens CONNECT tunnels, asks for Basic if told to, and counts what it does."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass
class ConnectProxy:
    """`async with ConnectProxy() as proxy:` tunnels to whatever port is asked for, on loopback.

    Args:
        credentials: "user:password" that it wants; compared with the literal "Basic ...", as some proxies do.
        says: its answer to CONNECT, in place of opening a tunnel; None: nothing at all, for ever.
        then: what it does after `says`; it hangs up unless given.
        opened: what it says when it opens a tunnel.
        tls: its certificates; it is an https proxy then.
    """

    credentials: str = ""
    says: bytes | None = b""
    then: Callable[[asyncio.StreamReader], Awaitable[object]] | None = None
    opened: bytes = OPENED
    tls: ssl.SSLContext | None = None
    heads: list[str] = field(default_factory=list)
    tunnels: int = 0
    open: int = 0

    async def __aenter__(self) -> Self:
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}"

    def url_for(self, userinfo: str) -> str:
        return self.url.replace("://", f"://{userinfo}@")

    @property
    def targets(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads]

    async def until(self, reached: Callable[[ConnectProxy], bool], within: float = 5.0) -> None:
        """Wait until a claim about the proxy's state is true."""
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(lambda: reached(self))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        await self._count(1)
        try:
            await self._exchange(reader, writer)
        except (EOFError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            await self._count(-1)

    async def _count(self, change: int) -> None:
        self.open += change
        async with self._changed:
            self._changed.notify_all()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        await self._count(0)
        if self.says is None:
            await reader.read()
        elif self.says:
            writer.write(self.says)
            if self.then is not None:
                await self.then(reader)
        elif self.credentials and f"Proxy-Authorization: {self._basic}\r\n" not in head:
            writer.write(b"HTTP/1.1 407 Nope\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 2\r\n\r\nno")
        else:
            await self._tunnel(int(head.split(" ")[1].rpartition(":")[2]), reader, writer)

    @property
    def _basic(self) -> str:
        return f"Basic {b64encode(self.credentials.encode()).decode()}"

    async def _tunnel(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", port)
        self.tunnels += 1
        writer.write(self.opened)
        ways = [asyncio.create_task(_pipe(reader, target_writer)), asyncio.create_task(_pipe(target_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            target_writer.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
