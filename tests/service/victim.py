"""A service in a process of its own, to be killed: it submits what is missing and works until nothing is left.

    python tests/service/victim.py STORE URL COUNT [deadly]

On its standard output stands each id that the store acknowledged. With "deadly" there is one
delivery more, whose sending ends the process.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from comity.client.aiohttp_transport import AiohttpTransport
from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.guard import Guard
from comity.service.service import Service
from comity.service.terms import Terms
from comity.service.worker import WorkerOptions
from comity.store.records import NewDelivery
from comity.store.sqlite.store import SqliteStore

SHAPES = ("/ok/{n}", "/flaky/{n}?fail=1&code=500", "/delay/5?n={n}", "/ok/{n}?once=1", "/delay/20?n={n}")
REFUSED = "/flaky/{n}?fail=1&code=429"
BATCH = 10
DEADLY = 66
"""The exit status of a process that a request was too much for."""

TERMS = Terms(max_retries=50, backoff_ms=100)


def delivery(n, url):
    """Return the n-th delivery; those that say once=1 are sent at most once."""
    shape = SHAPES[n % len(SHAPES)] if n % 50 else REFUSED  # each of those makes the whole origin pause
    path = shape.format(n=n)
    return NewDelivery(
        origin=url,
        lane=f"lane{n % 3}",
        method="POST",
        url=url + path,
        body=b"x" * 100,
        options=TERMS.stored(),
        max_attempts=TERMS.max_retries + 1,
        mode="at_most_once" if "once=1" in path else "at_least_once",
        idempotency_key=f"k{n}",
    )


class Deadly(AiohttpTransport):
    """A transport that one request is too much for."""

    async def open(self, request, limits, slot):
        if request.path.endswith("/deadly"):
            os._exit(DEADLY)
        return await super().open(request, limits, slot)


async def main(path, url, count, *more):
    store = SqliteStore(path)
    options = WorkerOptions(slots=32, lease=2 * NS, policy=Policy(concurrency=16, learn=None))
    transport = Deadly(guard=Guard(allow=["127.0.0.0/8"]))
    async with Service(store, transport=transport, worker=options):
        if more:
            terms = Terms(max_retries=2, backoff_ms=100)
            deadly = {
                "url": url + "/ok/deadly",
                "options": terms.stored(),
                "max_attempts": 3,
                "idempotency_key": "deadly",
            }
            await store.submit([NewDelivery(origin=url, method="POST", **deadly)])
        for start in range(0, count, BATCH):
            new = [delivery(n, url) for n in range(start, min(start + BATCH, count))]
            for each in await store.submit(new):
                print(each.id, flush=True)  # noqa: T201 - whoever kills it reads what it was told
        while True:
            seen = await store.last_event()
            counts = await store.counts()
            if not counts.pending + counts.retrying:
                break
            await store.newer(seen)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
