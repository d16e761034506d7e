"""Read: an answer that was read before, given out as if it came now."""

from __future__ import annotations

from comity.client.response import Response
from comity.engine.call import Exchange
from comity.policy.outcome import Outcome


class Read:
    """An answer that was read before, given out as if it came now.

    Args:
        head: it.
        exchange: what its attempt came to; an error in it comes after the content.
    """

    def __init__(self, head: Response, exchange: Exchange[Response]) -> None:
        self.head, self._end = head, exchange
        self.exchange: Exchange[Response] | None = None
        self._left = head.content

    async def chunk(self) -> bytes:
        """Return the content, then b""."""
        data, self._left = self._left, b""
        if not data:
            self.exchange = self._end
        return data

    async def read(self) -> Exchange[Response]:
        """Return what the attempt came to."""
        self.exchange = self._end
        return self._end

    async def abort(self) -> Exchange[Response]:
        """Leave what was not taken; an error behind it was never met."""
        if self.exchange is None:
            status = Outcome(status=self.head.status_code)
            self.exchange = Exchange(outcome=status, value=self.head, timings=self._end.timings)
        return self.exchange

    def drop(self) -> None:
        """There is no connection."""
