"""Stage: what a test of a store begins with, and the few things that a database must let it do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from comity.policy.units import NS
from comity.store.base import Store
from comity.store.records import Claim, Delivery, Ended, Lease, NewDelivery, Query
from comity.store.transitions import Step

ORIGIN = "https://api.example:443"
LEASE = 30 * NS
OK = Ended(then="completed", status=200, sent_ago=2, answered_ago=1)
AGAIN = Ended(then="retry", wait=10 * NS, status=500, error="HTTP 500", sent_ago=2, answered_ago=1)
REFUSED = Ended(then="retry", wait=10 * NS, status=429, refused=True, sent_ago=2, answered_ago=1)
NOT_SENT = Ended(then="retry", wait=10 * NS, error="no connection", sent="no")
GONE = Ended(then="failed", reason="status", status=410, error="HTTP 410", sent_ago=2, answered_ago=1)
OUTCOMES = (OK, AGAIN, REFUSED, NOT_SENT, GONE)


class Stage(ABC):
    """A database for one test. A subclass says how it is opened, how it crashes and how its clock is moved."""

    @abstractmethod
    async def open(self) -> Store:
        """Open the store; at first it is empty."""

    @abstractmethod
    async def crash(self, store: Store) -> Store:
        """Lose the process that has the store open, at once; open what then stands in the database."""

    @abstractmethod
    def advance(self, ns: int) -> None:
        """Move the store's clock on. It stands still otherwise, or goes on by itself."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """Have the store open for the length of a block."""
        store = await self.open()
        try:
            yield store
        finally:
            await store.close()


def new(number: int = 0, **options: Any) -> NewDelivery:
    """Return a request; options replace what it has otherwise."""
    given = {"origin": ORIGIN, "method": "POST", "url": f"{ORIGIN}/hook/{number}", "body": b"%d" % number} | options
    return NewDelivery(**given)


async def submit(store: Store, *many: NewDelivery) -> list[str]:
    """Submit; return the ids."""
    return [each.id for each in await store.submit(many or (new(),))]


async def worker(store: Store, name: str = "worker") -> Lease:
    """Register a worker that owns every origin there is work for."""
    lease = await store.register(name, LEASE)
    await store.own(lease, 1000)
    return lease


async def claims(store: Store, lease: Lease, free: int = 1000) -> Sequence[Claim]:
    """Own what is new and claim."""
    await store.own(lease, 1000)
    return (await store.claim(lease, free)).claims


async def send(store: Store, lease: Lease, ended: Ended = OK) -> Step:
    """Take the next delivery through one attempt."""
    (claim,) = await claims(store, lease, 1)
    await store.begin(claim)
    return await store.finish(claim, ended)


async def known(store: Store, number: str) -> Delivery:
    """Return a delivery that must be there."""
    found = await store.get(number)
    assert found is not None
    return found


async def everything(store: Store, query: Query | None = None, most: int = 100) -> list[Delivery]:
    """Return all deliveries, page by page."""
    found: list[Delivery] = []
    cursor: str | None = None
    while True:
        page = await store.deliveries(query or Query(), cursor, most)
        found.extend(page.deliveries)
        cursor = page.cursor
        if cursor is None:
            return found
