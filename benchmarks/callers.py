"""Callers: lean HTTP/1.1 clients of the service, which cost far less than what they measure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, cast

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_AT_ONCE = 64


class Caller(asyncio.Protocol):
    """One connection, on which one request is under way at a time."""

    def __init__(self) -> None:
        self._got = b""
        self._whole = 0
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is under way."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the service ended the connection"))

    def data_received(self, data: bytes) -> None:
        """Give back an answer that is whole."""
        self._got += data
        if not self._whole and _END in self._got:
            head, _, _ = self._got.partition(_END)
            _, mark, rest = head.lower().partition(_LENGTH)
            self._whole = len(head) + len(_END) + (int(rest.partition(b"\r\n")[0]) if mark else 0)
        if self._whole and len(self._got) >= self._whole and self._answer is not None and not self._answer.done():
            self._answer.set_result(self._got)
            self._got, self._whole = b"", 0

    async def ask(self, request: bytes) -> tuple[int, bytes, float]:
        """Send a request; return status and body of its answer, and the seconds that it took."""
        began = perf_counter()
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        whole = await self._answer
        took = perf_counter() - began
        head, _, body = whole.partition(_END)
        return int(head[9:12]), body, took

    async def submit(self, fields: Mapping[str, Any]) -> float:
        """Hand in a request to be delivered; return the seconds until it was accepted.

        Raises:
            RuntimeError: it was not.
        """
        status, body, took = await self.ask(post(fields))
        if status != 201:
            raise RuntimeError(f"the service answered {status}: {body.decode(errors='replace')}")
        return took

    async def get(self, path: str) -> tuple[bytes, float]:
        """Return a page, and the seconds that it took.

        Raises:
            RuntimeError: there is none.
        """
        status, body, took = await self.ask(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path.encode())
        if status != 200:
            raise RuntimeError(f"{path}: the service answered {status}: {body.decode(errors='replace')}")
        return body, took


def post(fields: Mapping[str, Any]) -> bytes:
    """Return a submission on the wire."""
    body = json.dumps(fields).encode()
    head = b"POST /requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


@asynccontextmanager
async def calling(port: int, connections: int) -> AsyncIterator[list[Caller]]:
    """Give so many connections to a port of this machine for the length of a block."""
    loop = asyncio.get_running_loop()
    callers: list[Caller] = []
    try:
        for _ in range(connections):
            _, caller = await loop.create_connection(Caller, "127.0.0.1", port)
            callers.append(caller)
        yield callers
    finally:
        for caller in callers:
            caller.transport.close()


async def steadily(port: int, rate: float, submissions: Iterator[Mapping[str, Any]]) -> list[float]:
    """Hand in so many a second, however long the answers take; return the seconds that each took."""
    times: list[float] = []
    async with calling(port, _AT_ONCE) as callers, asyncio.TaskGroup() as submitting:
        free: asyncio.Queue[Caller] = asyncio.Queue()
        for each in callers:
            free.put_nowait(each)

        async def submit(fields: Mapping[str, Any]) -> None:
            began = perf_counter()
            caller = await free.get()
            await caller.submit(fields)
            times.append(perf_counter() - began)
            free.put_nowait(caller)

        began = perf_counter()
        for number, fields in enumerate(submissions):
            submitting.create_task(submit(fields))
            await asyncio.sleep(max(0.0, began + (number + 1) / rate - perf_counter()))
    return times


def at(times: list[float], share: float) -> float:
    """Return the time that so great a share of the times does not exceed, e.g. 0.99 for the p99."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
