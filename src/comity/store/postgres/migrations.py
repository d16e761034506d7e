"""Migrations: the schema changes by numbered files, in order, when somebody asks for it, and never by itself.

The number of the last file that was applied stands in the table `store`, and is set in the same transaction as the files'
changes.

They are applied while processes of the version before still run, which go on until somebody ends them. So a composite type
(see `0005_rows.sql`) is never altered: those processes send the attributes that they know, and Postgres would refuse every row
of it. A change makes a type of a new name, and a later release drops the old one.
"""

from __future__ import annotations

from typing import Any

from comity.errors import StoreError
from comity.store.postgres.connecting import Place
from comity.store.postgres.faults import translated
from comity.store.schema import check_not_newer, check_not_older, numbered

OLDEST = 130_000
"""Postgres 13: the oldest that is still looked after by its makers for a while (postgresql.org/support/versioning)."""

_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = $1"
_IS_STORE = """
SELECT count(*) = 3 FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'store'
AND column_name IN ('one', 'version', 'seq')
"""


async def migrate(dsn: str, *, schema: str = "comity", to: int | None = None) -> list[str]:
    """Bring a store to the newest schema, or make it; return the names of what was applied.

    Of two that do so at once the second waits, and finds it done.

    Args:
        dsn: `postgresql://user:password@host:port/database`.
        schema: the schema of the database that holds it; made when it is not there.
        to: the number of the last migration to apply; None is the newest.

    Raises:
        OptionsError: `dsn` is none of that.
        StoreError: no connection, the schema holds something else, or it is newer than this version.
    """
    place = Place(dsn, schema, patience=None)  # an index of millions of rows takes its time
    with translated():
        db = await place.connect()
        try:
            async with db.transaction():
                await db.execute("SELECT pg_advisory_xact_lock(hashtext($1))", place.channel)
                await db.execute(f"CREATE SCHEMA IF NOT EXISTS {place.quoted}")
                done = await version(db, place)
                applied = []
                for number, (name, text) in enumerate(numbered("postgres")[:to], 1):
                    if number > done:
                        await db.execute(text)
                        await db.execute("UPDATE store SET version = $1", number)
                        applied.append(name)
            return applied
        finally:
            await db.close()


async def check_schema(db: Any, place: Place) -> None:
    """See that a store has this version's schema.

    Raises:
        StoreError: it is older (it waits for `migrate`), newer, or no store.
    """
    check_not_older(f"schema {place.schema}", await version(db, place), len(numbered("postgres")))


async def version(db: Any, place: Place) -> int:
    """Return the number of the last migration that was applied.

    Raises:
        StoreError: the server is too old, the schema holds something else, or it is newer than this version.
    """
    if (server := int(await db.fetchval("SHOW server_version_num"))) < OLDEST:
        said = f"the store needs Postgres {OLDEST // 10_000}; the server has {server // 10_000}"
        raise StoreError(said, reason="schema")
    if not await db.fetchval(_IS_STORE, place.schema):
        if await db.fetchval(_TABLES, place.schema):
            raise StoreError(f"the schema {place.schema} is no store of comity", reason="schema")
        return 0
    done = int(await db.fetchval("SELECT version FROM store"))
    check_not_newer(f"schema {place.schema}", done, len(numbered("postgres")))
    return done
