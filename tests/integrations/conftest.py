"""What drops into httpx is tested with httpx and httpx2, in loops and in threads; a test sees one kind of client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import httpx2
import pytest

import comity
from comity.testing import Upstream

LIBRARIES = {"httpx": (httpx, comity.httpx), "httpx2": (httpx2, comity.httpx2)}


class Dropped:
    """A library's client with comity's transport in it, whichever of the two kinds; its methods are awaited.

    Attributes:
        library: its module.
        transport: comity's.
    """

    def __init__(self, name: str, kind: str, **options) -> None:
        self.library, home = LIBRARIES[name]
        self.threads = kind == "threads"
        client = options.pop("client", {})
        self.transport = home.Transport(**options) if self.threads else home.AsyncTransport(**options)
        build = self.library.Client if self.threads else self.library.AsyncClient
        self.client = build(transport=self.transport, **client)

    async def request(self, method: str, url: str, **parts):
        if self.threads:
            return await asyncio.to_thread(self.client.request, method, url, **parts)
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
        answer = await asyncio.to_thread(block.__enter__)
        try:
            yield answer
        finally:
            await asyncio.to_thread(block.__exit__, None, None, None)

    async def read(self, answer) -> bytes:
        return await (asyncio.to_thread(answer.read) if self.threads else answer.aread())

    def body(self, *pieces: bytes):
        """Return a generator of a body, which can be sent once."""

        async def loops():
            for piece in pieces:
                yield piece

        return iter_once(pieces) if self.threads else loops()

    async def aclose(self) -> None:
        await (asyncio.to_thread(self.client.close) if self.threads else self.client.aclose())


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
