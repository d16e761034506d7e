"""A Postgres store for one test: a schema of its own, on a clock that runs and that the test moves on."""

from __future__ import annotations

import uuid

import asyncpg

from comity.store.postgres.migrations import migrate
from comity.store.postgres.store import PostgresStore
from comity.testing.conformance import Stage


class PostgresStage(Stage):
    """A schema in a database.

    Args:
        dsn: the database.
    """

    def __init__(self, dsn):
        self.dsn = dsn
        self.schema = f"test_{uuid.uuid4().hex}"
        self.ahead = 0
        self.stores = []
        self._migrated = False

    async def open(self):
        if not self._migrated:
            await migrate(self.dsn, schema=self.schema)
            self._migrated = True
        store = await PostgresStore.open(self.dsn, schema=self.schema, clock=lambda now: now + self.ahead)
        self.stores.append(store)
        return store

    async def crash(self, store):
        # Its connections are gone from one moment to the next; what it was just doing is undone.
        await lose(store)
        return await self.open()

    def advance(self, ns):
        self.ahead += ns

    async def sql(self, text, *values):
        """Ask the database itself."""
        db = await asyncpg.connect(self.dsn, server_settings={"search_path": self.schema})
        try:
            return await db.fetch(text, *values)
        finally:
            await db.close()

    async def remove(self):
        """Take the schema away, whoever still has it open."""
        for store in self.stores:
            await lose(store)
        await self.sql(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


async def lose(store):
    """Cut a store off its database without a farewell."""
    store._closed = True
    store._pool.terminate()
    await store._news.close()
    for hand in store._writer._hands:
        if hand.committer._db is not None:
            hand.committer._db.terminate()
    await store._writer.close()
