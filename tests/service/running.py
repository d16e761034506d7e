"""A store in a file, an upstream on loopback and a service between them, and what tests ask about them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

from comity.client.address import parse
from comity.errors import StoreError
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.guard import Guard
from comity.service.service import Service
from comity.service.terms import Terms
from comity.service.worker import WorkerOptions
from comity.store.records import ENDS, NewDelivery
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing.upstream import Upstream

LOOPBACK = Guard(allow=["127.0.0.0/8"])
EAGER = {"max_retries": 5, "backoff_ms": 100}
LIMIT = 30.0
FULL = StoreError("the disk is full", reason="full")


class Bench:
    """What a test works with."""

    def __init__(self, store, upstream, path):
        self.store, self.upstream, self.path = store, upstream, path

    def delivery(self, path, *, method="POST", terms=EAGER, headers=b"{}", **options):
        url = path if "://" in path else self.upstream.url + path
        asked = Terms(**terms)
        given = {"max_attempts": asked.max_retries + 1, "body": b"{}"} | options
        return NewDelivery(
            origin=parse(url).origin.text, method=method, url=url, headers=headers, options=asked.stored(), **given
        )

    async def submit(self, path, **options):
        (done,) = await self.store.submit([self.delivery(path, **options)])
        return done.id

    def service(self, *, store=None, policy=None, hosts=None, slots=40, lease=30.0, **options):
        worker = WorkerOptions(
            slots=slots, lease=int(lease * NS), policy=policy or Policy(concurrency=40), hosts=hosts or {}
        )
        return Service(store or self.store, guard=LOOPBACK, worker=worker, **{"drain": 5.0} | options)

    async def end(self, delivery):
        """Return a delivery when it has come to an end."""
        return await self.when(delivery, lambda found: found.state in ENDS)

    async def when(self, delivery, holds):
        """Return a delivery when something holds of it; the store's events say when to look."""
        async with asyncio.timeout(LIMIT):
            while True:
                seen = await self.store.last_event()
                found = await self.store.get(delivery)
                if holds(found):
                    return found
                await self.store.newer(seen)

    async def until(self, holds):
        """Read the store until something holds that it tells nobody of."""
        async with asyncio.timeout(LIMIT):
            while not holds():
                await self.store.counts()

    async def put_off(self, delivery):
        """Return a delivery that was due at once when it was given back, of which the store tells nobody."""
        async with asyncio.timeout(LIMIT):
            while (found := await self.store.get(delivery)).due_at <= found.created_at:
                pass
        return found

    async def attempts(self, delivery):
        return [(each.number, each.status, each.decision) for each in await self.store.attempts(delivery)]

    def arrivals(self, target=""):
        return Counter(each.target for each in self.upstream.arrivals(target))


class Failing:
    """A store that refuses some calls of a kind, as one whose disk is full does."""

    def __init__(self, store, name, times, error=FULL):
        self._store, self._name, self.left, self._error = store, name, times, error

    def __getattr__(self, name):
        if name == self._name and self.left:
            self.left -= 1
            return self._refuse
        return getattr(self._store, name)

    async def _refuse(self, *_arguments, **_named):
        raise self._error


class Counted:
    """A store that counts its calls."""

    def __init__(self, store):
        self._store, self.calls = store, Counter()

    def __getattr__(self, name):
        self.calls[name] += 1
        return getattr(self._store, name)


@asynccontextmanager
async def bench(directory, **upstream):
    path = directory / "store.sqlite"
    migrate(path)
    store = SqliteStore(path)
    try:
        async with Upstream(capture=True, **upstream) as up:
            yield Bench(store, up, path)
    finally:
        await store.close()
