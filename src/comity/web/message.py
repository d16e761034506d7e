"""Message: an event as every reader of the events gets it (server-sent events, html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

from functools import cached_property

import msgspec

from comity.store.records import Event
from comity.web import views


class Message:
    """What is written of one event.

    Args:
        event: what happened.

    Attributes:
        seq: its number.
    """

    def __init__(self, event: Event) -> None:
        self.seq, self._event = event.seq, event

    @cached_property
    def text(self) -> bytes:
        """The same for all readers, so it is made once, when the first of them comes."""
        told = views.event(self._event)
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (told.seq, told.kind.encode(), msgspec.json.encode(told))
