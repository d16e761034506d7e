"""The plainest client there is: bytes out, bytes in, over a real socket. It decides and hides nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from comity.testing import Upstream
from comity.testing.upstream.exchange import Exchange
from comity.testing.upstream.wire import take_head


class Reply(NamedTuple):
    """One answer, its header names in lower case."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> Any:
        return json.loads(self.body)


async def ask(up: Upstream, target: str, *, method: str = "GET", headers: str = "", body: bytes = b"") -> Reply:
    """Send one request on a connection of its own and read until the server closes it."""
    raw = await exchange_bytes(up, request(target, method=method, headers="Connection: close\r\n" + headers, body=body))
    return parse(raw)


def request(target: str, *, method: str = "GET", headers: str = "", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {target} HTTP/1.1\r\nHost: up.test\r\n{headers}{length}\r\n".encode("latin-1") + body


async def exchange_bytes(up: Upstream, sent: bytes) -> bytes:
    """Send bytes and return all that comes back until the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
    try:
        writer.write(sent)
        return await reader.read()
    finally:
        writer.close()


async def broken_bytes(up: Upstream, sent: bytes) -> tuple[bytes, BaseException | None]:
    """Send bytes; return what came back and the error that ended the connection, None for an ordinary end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
    received = b""
    try:
        writer.write(sent)
        while piece := await reader.read(65536):
            received += piece
        return received, None
    except ConnectionError as error:
        return received, error
    finally:
        writer.close()


def parse(raw: bytes) -> Reply:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    headers = [(name.lower(), value.strip()) for name, _, value in pairs]
    if ("transfer-encoding", "chunked") in headers:
        body = unchunk(body)
    return Reply(int(status.split()[1]), headers, body)


def unchunk(raw: bytes) -> bytes:
    body = b""
    while True:
        size, _, raw = raw.partition(b"\r\n")
        if not int(size, 16):
            assert raw == b"\r\n"
            return body
        body, raw = body + raw[: int(size, 16)], raw[int(size, 16) + 2 :]


def exchange(target: str, at: int = 0, method: str = "GET") -> Exchange:
    """A request as the paths see it, at a moment of the test's choice."""
    head = take_head(bytearray(request(target, method=method)))
    assert head is not None
    return Exchange(head, at)
