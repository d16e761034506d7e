"""Client behind the methods of AsyncClient, so that one table of tests is run with both: each call waits in a thread."""

from __future__ import annotations

import asyncio
from typing import Any, Self

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
