"""Dispatcher: what a client does around each wire attempt, whether its answer is read whole or handed out while it comes."""

from __future__ import annotations

from msgspec.structs import replace

from comity.client.accept import judge
from comity.client.auth import Signer, undressed
from comity.client.cookies import Cookies
from comity.client.har import Har
from comity.client.hedged import Hedged
from comity.client.recorded import Recorded
from comity.client.request import Request
from comity.client.response import Response
from comity.client.terms import Terms
from comity.client.transport import Transport, opening
from comity.client.underway import Underway
from comity.engine.call import Exchange, Slot
from comity.engine.clock import Clock
from comity.engine.held import Opened
from comity.policy.outcome import Outcome, asks_again
from comity.policy.timeouts import Timeout
from comity.policy.usage import Usage


class Dispatcher:
    """Sends the attempts of one client and its views.

    Args:
        wire: what sends; it is closed with the dispatcher.
        hedged: whether attempts that are late may be sent once more beside themselves.
        cookies: the jar, None for none.
        clock: what time it is.

    Attributes:
        wire: likewise.
        hars: recordings of the attempts.
        transport: the wire, with what happens to each send.
    """

    def __init__(self, wire: Transport, cookies: Cookies | None, clock: Clock, *, hedged: bool) -> None:
        self.wire = wire
        self.hars: list[Har] = []
        recorded = Recorded(wire, self.hars)
        self.transport: Transport = Hedged(recorded) if hedged else recorded
        self._cookies, self._clock = cookies, clock
        self._underway = Underway()

    async def send(
        self, request: Request, limits: Timeout, terms: Terms, signer: Signer | None, slot: Slot
    ) -> Exchange[Response] | Opened[Response]:
        """Make one attempt, dressed at the last moment: who asks, and cookies. The answer shows nothing of that.

        Returns:
            What it came to; or, for a call with `terms.standing` alone, the answer to hand out: the attempt is under way
            until `over` is told.
        """
        jar = self._cookies
        if terms.accept:
            slot.whole = True
        handed_out = False
        self._underway.begin(slot)
        try:
            dressed = request if signer is None else await signer.signed()
            if jar is not None:
                dressed = jar.dressed(dressed, self._clock.wall())
            if terms.standing is None:
                exchange = await self.transport.send(dressed, limits, slot)
            else:
                got = await self._open(request, dressed, limits, terms, slot, signed=signer is not None)
                if not isinstance(got, Exchange):
                    handed_out = True
                    return got
                exchange = got
        finally:
            if not handed_out:
                self._underway.end(slot)
        self._see(request, dressed, exchange, slot)
        response = exchange.value
        if response is not None and slot.usage is not None:
            settle(slot, slot.usage, response)
        if terms.accept and response is not None and not terms.redirects.lead_on(response):
            judge(terms.accept, response, exchange, slot)
        return exchange

    def over(self, request: Request, exchange: Exchange[Response] | None, slot: Slot) -> None:
        """Say what an attempt came to whose answer was handed out; None when nobody is to hear of it.

        Args:
            request: as it was given.
            exchange: what it came to.
            slot: the attempt's.
        """
        self._underway.end(slot)
        if exchange is not None:
            undressed(exchange, request)

    async def aclose(self) -> None:
        """Let what is on the wire finish, then close the connections."""
        await self._underway.over()
        await self.transport.aclose()

    async def _open(
        self, request: Request, dressed: Request, limits: Timeout, terms: Terms, slot: Slot, *, signed: bool
    ) -> Exchange[Response] | Opened[Response]:
        """Send up to the head of the answer, and read the whole of one that is not to be handed out."""
        slot.streamed = True
        opened = await opening(self.transport).open(dressed, limits, slot)
        if isinstance(opened, Exchange):
            return opened
        handed_out = False
        try:
            head = opened.head
            slot.hear(head.status_code, head.headers.pairs)
            if slot.again or asks_again(head.status_code) or terms.reads_whole(head, signed=signed):
                return await opened.read()
            self._see(request, dressed, Exchange(outcome=Outcome(status=head.status_code), value=head), slot)
            handed_out = True
            return opened
        finally:
            if not handed_out:
                await opened.abort()

    def _see(self, request: Request, dressed: Request, exchange: Exchange[Response], slot: Slot) -> None:
        """Take from an answer what is for the client, and tell its head where the transport did not."""
        if dressed is not request:
            undressed(exchange, request)
            if self._cookies is not None:
                self._cookies.take(exchange, self._clock.wall())
        response = exchange.value
        if response is None:
            return
        if response.status_code == 200:
            slot.listen(200, response.headers.pairs)
        else:
            slot.hear(response.status_code, response.headers.pairs)
            if slot.retry_after is not None:
                response.retry_after = slot.retry_after / 1e9
                exchange.outcome = replace(exchange.outcome, retry_after=slot.retry_after)


def settle(slot: Slot, usage: Usage, response: Response) -> None:
    """Correct what a request was charged with to what its answer says."""
    actual = usage.actual(response)
    if actual is not None:
        slot.settle(actual)
