"""Hedged: a transport that sends what is late once more, as far as the engine lets it."""

from __future__ import annotations

from functools import partial

from comity.client.request import Request
from comity.client.response import Response
from comity.client.transport import Transport, opening
from comity.engine.call import Exchange, Slot
from comity.engine.held import Opened
from comity.policy.timeouts import Timeout


class Hedged:
    """Another transport, hedged. What is streamed is sent once.

    Args:
        transport: the other.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:
        """Make one attempt; see `Transport.send`."""
        if slot.hedging is None:
            return await self._transport.send(request, limits, slot)
        return await slot.hedging.send(slot, partial(self._transport.send, request, limits))

    async def open(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response] | Opened[Response]:
        """Make one attempt up to the answer's head; see `Opens.open`."""
        return await opening(self._transport).open(request, limits, slot)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()
