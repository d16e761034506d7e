"""Client behind the methods of AsyncClient, so that one table of tests is run with both: each call waits in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any, Self

from comity.client.streamed import BlockingStreamedResponse
from comity.client.sync_client import Client

CALLS = ("request", "get", "head", "options", "post", "put", "patch", "delete", "poll", "download")


class InThreads:
    """What a test that says AsyncClient gets when it is run with Client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._client = Client(*args, **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client._api if name.startswith("_") else self._client, name)
        if name not in CALLS:
            return found

        async def call(*args: Any, **options: Any) -> Any:
            return await asyncio.to_thread(found, *args, **options)

        return call

    @asynccontextmanager
    async def stream(self, *args: Any, **options: Any) -> AsyncGenerator[InThread, None]:
        block = self._client.stream(*args, **options)
        answer = await asyncio.to_thread(block.__enter__)
        try:
            yield InThread(answer)
        except Exception as error:
            if not await asyncio.to_thread(block.__exit__, type(error), error, error.__traceback__):
                raise
        else:
            await asyncio.to_thread(block.__exit__, None, None, None)

    def with_options(self, **options: Any) -> Self:
        view = object.__new__(type(self))
        view._client = self._client.with_options(**options)
        return view

    async def aclose(self) -> None:
        await asyncio.to_thread(self._client.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return repr(self._client).replace("<Client", "<AsyncClient", 1)


class InThread:
    """A BlockingStreamedResponse behind the methods of StreamedResponse."""

    def __init__(self, answer: BlockingStreamedResponse) -> None:
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answer, name)

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        return each(self._answer.iter_bytes(chunk_size))

    def iter_lines(self) -> AsyncGenerator[str, None]:
        return each(self._answer.iter_lines())

    async def read(self) -> bytes:
        return await asyncio.to_thread(self._answer.read)


async def each(items: Generator[Any, None, None]) -> AsyncGenerator[Any, None]:
    """Yield what a generator yields, each item taken in a thread."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item
