"""Callbacks: tell whoever asked for it that a delivery came to an end.

A callback is a delivery of its own: durable, tried again by rules of its own, paced like everything else to its origin, behind
the same guard, and signed by Standard Webhooks. It is submitted by whoever reads the events, one after the other, under a key
that names the event, so that an event that is read twice is told once. Where the reading stands is written down after that,
and not for every event: what was read since is read again after a start.
"""

from __future__ import annotations

import msgspec

from comity import redact
from comity.client.address import parse
from comity.errors import InvalidRequest, StoreError
from comity.policy.dates import date_time
from comity.service.errand import CALLBACKS
from comity.service.log import log
from comity.service.submit import CALLBACK_KEY
from comity.service.terms import Terms
from comity.store.base import Store
from comity.store.records import ENDS, Delivery, Event, NewDelivery

_READER = "callbacks"
_PAGE = 500
_TERMS = Terms(max_retries=8, backoff_ms=2_500)
"""5 s, 10 s ... 21 min: three quarters of an hour in all, as a receiver may be about to be restarted."""


class Callbacks:
    """Reads the events and submits callbacks.

    Args:
        store: where both are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> None:
        """Work until cancelled."""
        seen = marked = await self._store.marked(_READER)
        while True:
            newest, full = await self._store.newer(seen), True
            while full:
                page = await self._store.events(seen, _PAGE, ENDS)
                full = len(page) == _PAGE
                found = [await self._callback(event) for event in page]
                new = [callback for callback in found if callback is not None]
                if new:
                    await self._submit(new)
                last = page[-1].seq if page else seen
                seen = last if full else max(last, newest)  # those in between were no ends
                if new or seen - marked >= _PAGE:
                    await self._store.mark(_READER, seen)
                    marked = seen

    async def _submit(self, new: list[NewDelivery]) -> None:
        for callback, done in zip(new, await self._store.submit(new), strict=True):
            if done.outcome == "conflict":  # from before such keys were refused
                log.error("%s is not sent: %s was submitted under this key", callback.idempotency_key, done.id)

    async def _callback(self, event: Event) -> NewDelivery | None:
        """Return what to submit on an end; None when nobody asked for it."""
        delivery = None if event.delivery is None else await self._store.get(event.delivery)
        if delivery is None:
            return None
        try:
            url = Terms.read(delivery.options).callback_url
            if url is None:
                return None
            origin = parse(url).origin
        except (StoreError, InvalidRequest) as error:  # checked when it was submitted
            log.error("the callback of %s cannot be sent: %s", delivery.id, error)
            return None
        return NewDelivery(
            origin=origin.text,
            lane=CALLBACKS + origin.text,
            method="POST",
            url=url,
            headers=b'{"Content-Type":"application/json"}',
            body=_body(event, delivery),
            options=_TERMS.stored(),
            max_attempts=_TERMS.max_retries + 1,
            idempotency_key=CALLBACK_KEY.format(event.seq),
        )


def _body(event: Event, delivery: Delivery) -> bytes:
    # What the event says, not what the row says by now: it may have been replayed since.
    data = {
        "id": delivery.id,
        "idempotencyKey": delivery.idempotency_key,
        "lane": delivery.lane,
        "url": redact.url(delivery.url),
        "status": event.kind,
        "attemptCount": delivery.attempts if event.attempt is None else event.attempt,
        "statusCode": event.status,
        "lastError": None,
        "reason": None,
    }
    if event.kind != "completed":
        data["reason"] = event.note
        if delivery.state == event.kind and event.attempt in {None, delivery.attempts}:
            data["lastError"] = delivery.last_error
        elif event.status is not None:
            data["lastError"] = f"HTTP {event.status}"
    return msgspec.json.encode({"type": f"delivery.{event.kind}", "timestamp": date_time(event.at), "data": data})
