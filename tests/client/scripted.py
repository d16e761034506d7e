"""A loopback server whose every connection follows a script of bytes, and a Slot that only records."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Self


@dataclass
class Seen:
    """One request as it stood on the wire."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes
    raw: bytes
    connection: int

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Peer:
    """One connection of the server."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: Scripted

    async def request(self, *, body: bool = True) -> Seen:
        """Read one request; EOFError when the client is gone."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, *rest = head[:-4].decode().split("\r\n")
        headers = [(name, value.strip()) for name, _, value in (each.partition(":") for each in rest)]
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        content = await self.reader.readexactly(length) if body and length else b""
        seen = Seen(line, headers, content, head + content, self.number)
        await self.server.saw(seen)
        return seen

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the client has ended the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def reset(self) -> None:
        """End the connection with RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class Scripted:
    """`async with Scripted(script) as server:` runs `script` for each connection and closes it afterwards."""

    script: Script
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0

    async def __aenter__(self) -> Self:
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, self.host, 0, ssl=self.tls)
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
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    async def until(self, reached: Callable[[Scripted], bool], within: float = 5.0) -> None:
        """Wait until a claim about the server's state is true."""
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(lambda: reached(self))

    async def saw(self, seen: Seen) -> None:
        """Note a request, for `until` too."""
        self.seen.append(seen)
        async with self._changed:
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self.script(Peer(self.connections, reader, writer, self))
        except (EOFError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self.open -= 1
            async with self._changed:
                self._changed.notify_all()


def answer(*parts: bytes) -> Script:
    """Return a script that answers every request with the same bytes and keeps the connection."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            for part in parts:
                await peer.send(part)

    return script


def once(*parts: bytes) -> Script:
    """Return a script that answers one request and closes."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for part in parts:
            await peer.send(part)

    return script


async def hang(peer: Peer) -> None:
    """Read a request and never answer."""
    await peer.request()
    await peer.gone()


def ok(body: bytes = b"ok", *headers: str, status: str = "200 OK") -> bytes:
    """Return a whole answer with a Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def in_chunks(body: bytes, *headers: str) -> bytes:
    """Return a whole answer whose body is one chunk; `headers` say so."""
    head = "\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode()
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def packed(data: bytes) -> bytes:
    """Return `data` in gzip, the same bytes on every call, as names of tests are made of them."""
    return gzip.compress(data, mtime=0)


OK = ok(b'{"a":1}', "Content-Type: application/json")


def status(code: int, *headers: str, body: bytes = b"no") -> bytes:
    """Return a whole answer with a status."""
    return ok(body, *headers, status=f"{code} X")


def refused(seconds: object) -> bytes:
    """Return a refusal by rate."""
    return status(429, f"Retry-After: {seconds}")


def in_turn(*answers: bytes | None) -> Script:
    """Answer the requests of all connections one after another; None hangs up; the last answer stays."""
    left = list(answers)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            data = left.pop(0) if len(left) > 1 else left[0]
            if data is None:
                peer.reset()
                return
            await peer.send(data)

    return script


async def under_way(server: Scripted, call: Coroutine[object, object, object]) -> asyncio.Task[object]:
    """Start a call and wait until the server has seen a request."""
    task = asyncio.create_task(call)
    while not server.seen:
        await asyncio.wait([task], timeout=0.01)
    return task


@dataclass
class RecordedSlot:
    """Stands where the engine's Slot stands: it keeps the order of what the transport says."""

    deadline: int | None = None
    number: int = 1
    said: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def time_left(self) -> int | None:
        return None if self.deadline is None else self.deadline - monotonic_ns()

    def sent(self) -> None:
        self.said.append("sent")
        self.left.set()

    def answered(self) -> None:
        self.said.append("answered")

    def hear(self, status: int, headers: object) -> None:
        self.said.append(f"heard {status}")
