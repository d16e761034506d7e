"""Migrations: the schema changes by numbered files, in order, when somebody asks for it, and never by itself.

The number of the last file that was applied stands in the table `store`, and is set in the same transaction as the files'
changes. A file that was released is never edited.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from comity.errors import StoreError
from comity.store.postgres.connecting import Place
from comity.store.postgres.faults import translated

OLDEST = 130_000
"""Postgres 13: the oldest that is still looked after by its makers for a while (postgresql.org/support/versioning)."""

_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = $1"
_IS_STORE = """
SELECT count(*) = 3 FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'store'
AND column_name IN ('one', 'version', 'seq')
"""


@cache
def migrations() -> tuple[tuple[str, str], ...]:
    """Return name and text of every migration; the first is number 1."""
    folder = files("comity.store.schema.postgres")
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    return tuple((name.removesuffix(".sql"), (folder / name).read_text(encoding="utf-8")) for name in found)


async def migrate(dsn: str, *, schema: str = "comity", to: int | None = None) -> list[str]:
    """Bring a store to the newest schema, or make it; return the names of what was applied.

    Of two that do so at once the second waits, and finds it done.

    Args:
        dsn: `postgresql://user:password@host:port/database`.
        schema: the schema of the database that holds it; made when it is not there.
        to: the number of the last migration to apply; None is the newest.

    Raises:
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
                for number, (name, text) in enumerate(migrations()[:to], 1):
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
    done, newest = await version(db, place), len(migrations())
    if done < newest:
        what = "is empty" if done == 0 else f"has schema {done} and this version needs {newest}"
        raise StoreError(f"the store in schema {place.schema} {what}: migrate it first", reason="schema")


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
    done, newest = int(await db.fetchval("SELECT version FROM store")), len(migrations())
    if done > newest:
        said = f"the store has schema {done}, newer than this version's {newest}: use the newer comity"
        raise StoreError(said, reason="schema")
    return done
