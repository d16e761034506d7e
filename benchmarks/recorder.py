"""Recorder: a transport that notes when each request began to leave and how long its answer took to begin."""

from __future__ import annotations

from time import monotonic_ns
from typing import Any, cast

from comity import Request, Response, Timeout
from comity.client.aiohttp_transport import AiohttpTransport
from comity.engine.call import Exchange, Slot


class Recorder:
    """The default transport, observed.

    Attributes:
        sent: ns, monotonic, of each request's first byte.
        latencies: ns from there to the answer's first byte.
    """

    def __init__(self) -> None:
        self._transport = AiohttpTransport()
        self.sent: list[int] = []
        self.latencies: list[int] = []

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:
        """Send once."""
        return await self._transport.send(request, limits, cast("Slot", _Noting(self, slot)))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


class _Noting:
    """A Slot that notes what the transport tells it, before the limiter is told."""

    def __init__(self, recorder: Recorder, slot: Slot) -> None:
        self._recorder, self._slot = recorder, slot
        self._began = self._answered = 0

    def sent(self) -> None:
        if not self._began:
            self._began = monotonic_ns()
            self._recorder.sent.append(self._began)
        self._slot.sent()

    def answered(self) -> None:
        if not self._answered:
            self._answered = monotonic_ns()
            self._recorder.latencies.append(self._answered - self._began)
        self._slot.answered()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slot, name)
