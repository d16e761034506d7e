"""What drops into httpx is tested with httpx and httpx2, in loops and in threads; a test sees one kind of client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

import httpx
import httpx2
import pytest

import comity
from comity.testing import Upstream

LIBRARIES = {"httpx": (httpx, comity.httpx), "httpx2": (httpx2, comity.httpx2)}


class Dropped:
    """A library's client with comity's transport in it, whichever of the two kinds; its methods are awaited.

    Args:
        name: of the library.
        kind: "loops" or "threads".
        at_a_time: how many threads make calls.
        client: options of the library's client.
        options: of comity's transport.

    Attributes:
        library: its module.
        transport: comity's.
    """

    def __init__(self, name: str, kind: str, *, at_a_time: int = 32, client: dict | None = None, **options) -> None:
        self.library, home = LIBRARIES[name]
        self.threads = kind == "threads"
        self._threads = ThreadPoolExecutor(at_a_time)
        self.transport = home.Transport(**options) if self.threads else home.AsyncTransport(**options)
        build = self.library.Client if self.threads else self.library.AsyncClient
        self.client = build(transport=self.transport, **(client or {}))

    async def request(self, method: str, url: str, **parts):
        if self.threads:
            return await self._in_thread(self.client.request, method, url, **parts)
        return await self.client.request(method, url, **parts)

    async def get(self, url: str, **parts):
        return await self.request("GET", url, **parts)

    async def post(self, url: str, **parts):
        return await self.request("POST", url, **parts)

    @asynccontextmanager
    async def stream(self, method: str, url: str, **parts) -> AsyncIterator:
        if not self.threads:
            async with self.client.stream(method, url, **parts) as answer:
                yield answer
            return
        block = self.client.stream(method, url, **parts)
        answer = await self._in_thread(block.__enter__)
        try:
            yield answer
        finally:
            await self._in_thread(block.__exit__, None, None, None)

    async def read(self, answer) -> bytes:
        return await (self._in_thread(answer.read) if self.threads else answer.aread())

    def body(self, *pieces: bytes):
        """Return a generator of a body, which can be sent once."""

        async def loops():
            for piece in pieces:
                yield piece

        return iter_once(pieces) if self.threads else loops()

    async def aclose(self) -> None:
        await (self._in_thread(self.client.close) if self.threads else self.client.aclose())
        self._threads.shutdown()

    def _in_thread(self, work, *args, **options):
        return asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *args, **options))


def iter_once(pieces):
    yield from pieces


@pytest.fixture(params=["loops", "threads"])
def kind(request):
    return request.param


@pytest.fixture(params=list(LIBRARIES))
async def dropped(request, kind):
    """Return a maker of clients, which are closed after the test."""
    made: list[Dropped] = []

    def make(**options) -> Dropped:
        made.append(Dropped(request.param, kind, **options))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


@pytest.fixture
async def server():
    async with Upstream(capture=True) as upstream:
        yield upstream
