"""Progress: how far one send through httpx came, and what was sent of it.

httpx tells it through the `trace` extension of its wire, httpcore. A transport of somebody else's may tell nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comity.client.stopwatch import Stopwatch
from comity.engine.call import Slot
from comity.errors import Sent


class Progress:
    """How far one send came.

    Args:
        slot: is told when the first byte left and when the answer began.

    Attributes:
        told: the wire says how far it is.
        handing: it began to hand over the request.
        time: where the time went; the lookup of the name counts as "connect".
    """

    __slots__ = ("_answering", "_fresh", "_slot", "_tunnel", "_whole", "handing", "time", "told")

    def __init__(self, slot: Slot) -> None:
        self.told = self.handing = self._fresh = self._whole = self._answering = self._tunnel = False
        self.time = Stopwatch()
        self._slot = slot

    def note(self, event: str, info: Mapping[str, Any]) -> None:
        """Note an event of the wire, such as "http11.send_request_headers.complete"."""
        self.told = True
        _, step, state = event.rsplit(".", 2)
        if (step, state) == ("send_request_headers", "started"):
            # A proxy's CONNECT is told like a request, but it is none of ours.
            self._tunnel = getattr(info.get("request"), "method", b"") == b"CONNECT"
        if not self._tunnel:
            self._noted(step, state)

    def answered(self) -> None:
        """Note that the head of the answer is there."""
        self._slot.sent()
        self._slot.answered()
        if not self._answering:
            self._answering = True
            self.time.enter("download")

    def sent(self, *, ended: bool, before: bool) -> Sent:
        """Return whether the request was sent.

        Args:
            ended: its connection ended by itself. One that was used before may have been closed by the server earlier.
            before: the error says that it happened before anything is sent; it is asked when the wire tells nothing.
        """
        if not (self.told or self._answering):
            return "no" if before else "maybe"
        if self._answering:
            return "yes"
        if not self.handing:
            return "no"
        return "yes" if self._whole and not (ended and not self._fresh) else "maybe"

    def _noted(self, step: str, state: str) -> None:
        match step, state:
            case (("connect_tcp" | "connect_unix_socket"), "started"):
                self._fresh = True
                self.time.enter("connect")
            case "start_tls", "started":
                self.time.enter("tls")
            case "send_request_headers", "started":
                self.handing = True
                self.time.enter("upload")
            case "send_request_headers", "complete":
                self._slot.sent()
            case "send_request_body", "complete":
                self._whole = True
                self.time.enter("response")
            case "receive_response_headers", "complete":
                self.answered()
            case _:
                pass
