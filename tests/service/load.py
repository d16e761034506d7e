"""Load: programs that hand in deliveries over HTTP while the service is killed, and remember what they were told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count

from comity.errors import ComityError, ConnectFailed, StatusError
from comity.policy.retry import Retry
from comity.service.client import AsyncServiceClient
from tests.service.books import AGAIN

SHAPES = ("/ok/{n}", "/flaky/{n}?fail=1&code=500", "/delay/5?n={n}", "/ok/{n}?once=1", "/delay/20?n={n}")
REFUSED = "/flaky/{n}?fail=1&code=429"
LINES = 5
"""So many lines a batch has."""

CRON = "* * * * *"

_SOON = 0.02


class Load:
    """Submits one after the other, in several ways at a time: with keys, in batches, and without keys; and replays a lane.

    Args:
        api: a client of the service.
        upstream: the URL where deliveries go.

    Attributes:
        acknowledged: the id that was told of each delivery, by its number.
        schedules: the id that was told of each schedule, by its number; there is one for each time that more is allowed.
        replayed: how many deliveries were told to be delivered again.
    """

    def __init__(self, api, upstream):
        self._api, self._upstream = api, upstream
        self._numbers, self._allowed, self._over = count(), asyncio.Semaphore(0), False
        self._rounds = asyncio.Semaphore(0)
        self.acknowledged, self.schedules, self.replayed = {}, {}, 0

    def allow(self, many):
        """Let so many more be submitted, one schedule besides, and all that ended in the lane AGAIN be replayed."""
        for _ in range(many):
            self._allowed.release()
        self._rounds.release()

    @property
    def ways(self):
        """What is to run beside one another until `finish` is called."""
        return self._keyed, self._keyed, self._unkeyed, self._batch, self._besides

    def finish(self):
        """Submit no more."""
        self._over = True
        self.allow(LINES * 4)

    async def _next(self):
        await self._allowed.acquire()
        return None if self._over else next(self._numbers)

    async def _keyed(self):
        while (n := await self._next()) is not None:
            while not await self._submitted(n, idempotency_key=f"k{n}"):
                pass

    async def _unkeyed(self):
        # Whether it is stored is not known when there is no answer, so it is not said again then.
        while (n := await self._next()) is not None:
            while await self._submitted(n) is False:
                pass

    async def _submitted(self, n, **key):
        """Submit; return whether it was told to be stored, None when that is not known."""
        fields = self._fields(n)
        try:
            made = await self._api.submit(fields.pop("url"), **fields, **key)
        except ComityError as error:
            await self._away(error)
            return False if isinstance(error, ConnectFailed) else None
        self._note(n, made["id"])
        return True

    async def _batch(self):
        while not self._over:
            numbers = [n for n in [await self._next() for _ in range(LINES)] if n is not None]
            left = set(numbers)
            while left:
                lines = [self._fields(n) | {"idempotency_key": f"k{n}"} for n in numbers]
                try:
                    async for told in self._api.submit_many(lines):
                        if accepted := told.get("accepted"):
                            n = numbers[told["line"] - 1]
                            left.discard(n)
                            self._note(n, accepted["id"])
                except ComityError as error:
                    await self._away(error)

    async def _besides(self):
        for n in count():
            await self._rounds.acquire()
            if self._over:
                return
            while not await self._replayed_and_scheduled(n):
                pass

    async def _replayed_and_scheduled(self, n):
        try:
            self.replayed += await self._api.replay_all(lane=AGAIN)
            made = await self._api.submit(f"{self._upstream}/ok/s{n}", cron=CRON, idempotency_key=f"s{n}")
        except ComityError as error:
            await self._away(error)
            return False
        assert self.schedules.setdefault(n, made["schedule"]) == made["schedule"]
        return True

    async def _away(self, error):
        """Wait a moment for a service that is not there; raise what is no reason to."""
        if isinstance(error, StatusError) and error.status_code < 500:
            raise error
        await asyncio.sleep(_SOON)

    def _note(self, n, number):
        # Whoever says it again under its key is told the same.
        assert self.acknowledged.setdefault(n, number) == number

    def _fields(self, n):
        path = (SHAPES[n % len(SHAPES)] if n % 50 else REFUSED).format(n=n)
        fields = {"url": self._upstream + path, "method": "POST", "body": "x" * 100, "lane": f"lane{n % 3}"}
        once = {"delivery": "at_most_once"} if "once=1" in path else {}
        return fields | once | {"max_retries": 50, "backoff_ms": 100}


@asynccontextmanager
async def load(service, upstream):
    """Have load for the length of a block; what it still has in hand is handed in at its end."""
    api = AsyncServiceClient(service, retry=Retry(attempts=1), concurrency=None, timeout=10)
    async with api, asyncio.TaskGroup() as group:
        some = Load(api, upstream)
        for way in some.ways:
            group.create_task(way())
        yield some
        some.finish()
