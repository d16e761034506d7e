"""Queues: job queues of others on Postgres, from the submission of jobs that do nothing to ends that are recorded.

Each runs as its documentation advises for speed: procrastinate is given its jobs in batches, SAQ by many at once; their own
workers run as many jobs at once as ours. Both commit as the server is set up to, that is to the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from benchmarks import peers
from benchmarks.store import BODY, SLOTS

BATCH = 256
CONNECTIONS = 20
"""SAQ's own choice for its pool, and more than either can keep busy."""

JOB = {"url": "https://host.example:443/hook", "body": BODY.decode()}


class Queue:
    """A peer that is set up.

    Args:
        lives: takes so many jobs from submission to their end; returns how many a second.
        close: ends it.
    """

    def __init__(self, lives: Callable[[int], Awaitable[float]], close: Callable[[], Awaitable[None]]) -> None:
        self.lives, self.close = lives, close


class _Countdown:
    """So many ends are waited for, and how many there were a second is said."""

    def __init__(self) -> None:
        self._many = self._left = 0
        self._began = 0.0
        self._over = asyncio.Event()

    def begin(self, many: int) -> None:
        self._many = self._left = many
        self._over.clear()
        self._began = perf_counter()

    def one(self) -> None:
        self._left -= 1
        if not self._left:
            self._over.set()

    async def over(self) -> None:
        await self._over.wait()

    def rate(self) -> float:
        return self._many / (perf_counter() - self._began)


async def procrastinate(dsn: str, schema: str) -> Queue:
    """Set up procrastinate in a schema that is there and empty.

    Raises:
        Absent: it is not installed.
    """
    library = peers.need("procrastinate")
    options = {"options": f"-c search_path={schema}"}
    app = library.App(connector=library.PsycopgConnector(conninfo=dsn, kwargs=options, max_size=CONNECTIONS))
    await app.open_async()
    await app.schema_manager.apply_schema_async()
    ends = _Countdown()

    async def deliver(**_: object) -> None:
        ends.one()

    task = app.task(deliver, name="deliver")

    async def lives(many: int) -> float:
        ends.begin(many)
        worker = asyncio.create_task(app.run_worker_async(concurrency=SLOTS, install_signal_handlers=False))
        for done in range(0, many, BATCH):
            await task.batch_defer_async(*[JOB] * min(BATCH, many - done))
        await ends.over()
        # It ends when all that it runs is recorded.
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker
        return ends.rate()

    return Queue(lives, app.close_async)


async def saq(dsn: str, schema: str) -> Queue:
    """Set up SAQ in a schema that is there and empty.

    Raises:
        Absent: it is not installed, or its Postgres broker is not.
    """
    queues = peers.need("saq.queue.postgres")
    library, pools = peers.need("saq"), peers.need("psycopg_pool")
    options = {"autocommit": True, "options": f"-c search_path={schema}"}
    pool = pools.AsyncConnectionPool(dsn, kwargs=options, open=False)
    queue = queues.PostgresQueue(pool=pool, max_size=CONNECTIONS, manage_pool_lifecycle=True)
    await queue.connect()
    ends = _Countdown()
    # Whenever it stops it warns of the tasks that still wait for jobs.
    logging.getLogger("saq").setLevel(logging.ERROR)

    async def deliver(_: Any, **__: object) -> None:
        pass

    async def recorded(_: Any) -> None:
        ends.one()

    async def lives(many: int) -> float:
        ends.begin(many)
        worker = library.Worker(queue, [("deliver", deliver)], concurrency=SLOTS, after_process=recorded)
        worker.SIGNALS = []  # those are the benchmark's own
        working = asyncio.create_task(worker.start())
        left = many

        async def submit() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await queue.enqueue("deliver", **JOB)

        await asyncio.gather(*(submit() for _ in range(SLOTS)))
        await ends.over()
        rate = ends.rate()
        worker.event.set()
        await working
        return rate

    return Queue(lives, queue.disconnect)
