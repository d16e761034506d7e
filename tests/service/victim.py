"""A service in a process of its own, to be killed: it submits what is missing and works until nothing is left.

    python tests/service/victim.py STORE URL COUNT

On its standard output stands each id that the store acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

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


async def main(path, url, count):
    store = SqliteStore(path)
    options = WorkerOptions(slots=32, lease=2 * NS, policy=Policy(concurrency=16, learn_gap=False))
    async with Service(store, guard=Guard(allow=["127.0.0.0/8"]), worker=options):
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
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
