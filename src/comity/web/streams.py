"""Streams: answers that are written while there is more to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

ABORT = "comity.abort"
"""Where a scope has what ends its connection at once, unwritten answers with it."""


class Stream(Response):
    """An answer written piece by piece; the request's body may still be read meanwhile.

    Args:
        pieces: what is written; closed in any case.
        media_type: its kind.
        patience: seconds that one write may take; a reader that is slower is left, its connection with it. So it is when
            `pieces` raises TimeoutError.
        watch: stop when the reader goes; only where the request has no body that is still read.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        *,
        patience: float | None = None,
        watch: bool = False,
    ) -> None:
        super().__init__(media_type=media_type, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._pieces, self._patience, self._watch = pieces, patience, watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the answer (ASGI)."""
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            await self._pieces.aclose()
            return
        writing = asyncio.create_task(self._write(send))
        waited: set[asyncio.Task[Any]] = {writing}
        if self._watch:
            waited.add(asyncio.create_task(_gone(receive)))
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waited:
                task.cancel()
            await asyncio.wait(waited)
        if not writing.cancelled() and not writing.result() and ABORT in scope:
            scope[ABORT]()
            await _gone(receive)

    async def _write(self, send: Send) -> bool:
        """Write all of it; return whether the reader took it."""
        try:
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for piece in self._pieces:
                await self._send(send, {"type": "http.response.body", "body": piece, "more_body": True})
            await self._send(send, {"type": "http.response.body", "body": b""})
        except TimeoutError:  # the reader is too slow, or what its answer is made of; it comes again where it was
            return False
        except ClientDisconnect:
            pass
        finally:
            await self._pieces.aclose()
        return True

    async def _send(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._patience):
            await send(message)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
