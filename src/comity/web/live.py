"""Live: the events as they happen.

The id of each is its number in the store, which a reader that comes back says in Last-Event-ID: it misses nothing that is
kept, over restarts too. Nothing is held for a reader that is slow; when one write takes too long it is left, and comes back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response

from comity.errors import StoreError
from comity.web.operation import LOG, Operation, Parameter
from comity.web.problem import Refusal
from comity.web.shared import Shared, shared_of
from comity.web.streams import Stream

SSE = "text/event-stream"

_RETRY_MS = 2_000


async def events(request: Request) -> Response:
    """Answer with what happens from now on, or since the event that was seen last."""
    service = shared_of(request)
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is not None and not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise Refusal(422, "this is no event's number", field="Last-Event-ID")
    last = service.feed.last
    return Stream(
        _told(service, last if given is None else min(int(given), last)), SSE, patience=service.patience, watch=True
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/events",
        handler=events,
        text="Follow what happens, as server-sent events.",
        scope="read",
        answers={200: SSE},
        parameters=(
            Parameter(
                name="Last-Event-ID", where="header", text="The last that was seen; by default only new ones come."
            ),
            Parameter(name="after", text="The same, for those who cannot set the header."),
        ),
    ),
)


async def _told(service: Shared, seen: int) -> AsyncGenerator[bytes, None]:
    # Where it begins, too: who is cut off before anything happened misses nothing either.
    yield b"retry: %d\nid: %d\n\n" % (_RETRY_MS, seen)
    while not service.feed.stopped:
        try:
            happened = await service.feed.after(seen, service.heartbeat)
        except StoreError as error:
            LOG.error("events cannot be read: %s", error)
            return
        if happened:
            seen = happened[-1].seq
        yield b"".join(message.text for message in happened) or b": alive\n\n"
