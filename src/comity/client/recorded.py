"""Recorded: a transport whose every send is written into the recordings of a client, however it ends.

It stands next to the wire, below whatever sends an attempt once more beside itself, so that nothing is sent past it.
"""

from __future__ import annotations

from comity.client.har import Har
from comity.client.request import Request
from comity.client.response import Response
from comity.client.transport import Transport, opening
from comity.engine.call import Exchange, Slot
from comity.engine.held import Opened
from comity.policy.timeouts import Timeout

_LEFT = "its block was left before the end of the body"


class Recorded:
    """Another transport, recorded.

    Args:
        transport: the other.
        hars: the recordings that are open; they come and go.
    """

    def __init__(self, transport: Transport, hars: list[Har]) -> None:
        self._transport, self._hars = transport, hars

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:
        """Make one attempt; see `Transport.send`."""
        try:
            exchange = await self._transport.send(request, limits, slot)
        except BaseException as error:
            _record(self._hars, request, slot, slot.cut_short(), comment=_cut_by(error))
            raise
        if self._hars:
            _record(self._hars, request, slot, exchange)
        return exchange

    async def open(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response] | Opened[Response]:
        """Make one attempt up to the answer's head; see `Opens.open`."""
        try:
            got = await opening(self._transport).open(request, limits, slot)
        except BaseException as error:
            _record(self._hars, request, slot, slot.cut_short(), comment=_cut_by(error))
            raise
        if not isinstance(got, Exchange):
            return _RecordedOpened(got, self._hars, request, slot)
        _record(self._hars, request, slot, got)
        return got

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()


class _RecordedOpened:
    """An answer whose attempt is recorded when it is over."""

    def __init__(self, opened: Opened[Response], hars: list[Har], request: Request, slot: Slot) -> None:
        self._opened, self._hars, self._request, self._slot = opened, hars, request, slot
        self._size = 0
        self._told = False
        self.head = opened.head

    @property
    def exchange(self) -> Exchange[Response] | None:
        return self._opened.exchange

    async def chunk(self) -> bytes:
        data = await self._opened.chunk()
        self._size += len(data)
        if not data and (exchange := self._opened.exchange) is not None:
            self._tell(exchange, size=self._size)
        return data

    async def read(self) -> Exchange[Response]:
        try:
            exchange = await self._opened.read()
        except BaseException as error:
            self._tell(self._cut_short(), comment=_cut_by(error))
            raise
        self._tell(exchange)
        return exchange

    async def abort(self) -> Exchange[Response]:
        exchange = await self._opened.abort()
        self._tell(exchange, size=self._size, comment=_LEFT)
        return exchange

    def drop(self) -> None:
        self._opened.drop()
        self._tell(self._cut_short(), size=self._size, comment=_LEFT)

    def _cut_short(self) -> Exchange[Response]:
        exchange: Exchange[Response] = self._slot.cut_short()
        exchange.value = self.head
        return exchange

    def _tell(self, exchange: Exchange[Response], *, size: int | None = None, comment: str = "") -> None:
        if not self._told:
            self._told = True
            _record(self._hars, self._request, self._slot, exchange, size=size, comment=comment)


def _record(
    hars: list[Har],
    request: Request,
    slot: Slot,
    exchange: Exchange[Response],
    *,
    size: int | None = None,
    comment: str = "",
) -> None:
    for har in tuple(hars):
        har.add(request, exchange, slot, size=size, comment=comment)


def _cut_by(error: BaseException) -> str:
    return f"cut short by {type(error).__name__}"
