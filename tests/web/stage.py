"""An API on loopback over a real store, and a worker's hand to move deliveries on."""

from __future__ import annotations

import json as json_module
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from comity.errors import StoreError
from comity.policy.units import NS
from comity.service.guard import Guard
from comity.store.records import Answer, Ended
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.web.feed import Feed
from comity.web.room import Room
from comity.web.shared import Shared
from comity.web.stack import stacked

PLAIN = {"url": "https://api.example/x", "method": "GET"}
LANE = "https://api.example"


class Api:
    """What a test talks to."""

    def __init__(self, stack, session, store, service, clock):
        self.stack, self.url, self.session = stack, stack.url, session
        self.store, self.service, self.clock = store, service, clock
        self.lease = None

    async def call(self, method, path, json=None, **options):
        """Return status, decoded body (or bytes) and headers."""
        async with self.session.request(method, self.url + path, json=json, **options) as response:
            text = await response.read()
            body = json_module.loads(text) if response.content_type.endswith(("/json", "+json")) and text else text
            return response.status, body, response.headers

    async def submit(self, headers=None, **fields):
        """Submit a request; return its id."""
        status, body, _ = await self.call("POST", "/requests", PLAIN | fields, headers=headers)
        assert status == 201, body
        return body["id"]

    async def begin(self):
        """Begin to send the next delivery, as a worker does."""
        if self.lease is None:
            self.lease = await self.store.register("w", 10**6 * NS)
        await self.store.own(self.lease, 100)
        (claim,) = (await self.store.claim(self.lease, 1)).claims
        await self.store.begin(claim)
        return claim

    async def end(self, claim, then="completed", **ended):
        """End what was begun."""
        if then == "completed":
            ended = {"status": 200, "answer": Answer(status=200, body=b"fine", size=4, sha256=b"\1" * 32)} | ended
        await self.store.finish(claim, Ended(then=then, **ended))

    async def deliver(self, then="completed", **ended):
        """Send the next delivery."""
        await self.end(await self.begin(), then, **ended)

    async def followed(self):
        """Return when the feed has everything that happened."""
        while await self.store.events(self.service.feed.last, 1):  # each look lets the feed run
            pass

    async def waited_for(self):
        """Return when somebody waits for the end of a delivery."""
        while not self.service.feed._ends:
            await self.store.counts()


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 1_800_000_000 * NS

    def __call__(self):
        return self.now


class DownStore:
    """A store whose database stopped taking part; what it was asked is refused."""

    def __init__(self, store):
        self._store = store
        self.down = False

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if self.down and name not in {"newer", "close"}:
            raise StoreError(f"/secret/path: disk I/O error in {name}", reason="failed")
        return method


@asynccontextmanager
async def staged(path, *, most=None, wrap=lambda store: store, allow=(), port=0, **options):
    """Serve an API over a store in a directory."""
    clock = Clock()
    migrate(path / "s.db")
    async with AsyncExitStack() as opened:
        store = wrap(SqliteStore(path / "s.db", clock=clock))
        opened.push_async_callback(store.close)
        service = Shared(store=store, guard=Guard(allow=allow), feed=Feed(store), room=Room(store, most), **options)
        stack = await opened.enter_async_context(stacked(service, port=port))
        session = await opened.enter_async_context(aiohttp.ClientSession())
        yield Api(stack, session, store, service, clock)
