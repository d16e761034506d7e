"""Places: the databases that the service is measured in.

COMITY_BENCH_POSTGRES names the Postgres server; otherwise it is the one that runs on this machine. A place there is a
database of its own, which is dropped at the end.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

from benchmarks import peers
from benchmarks.loops import runner
from comity.service.stores import migrate_store

KINDS = ("SQLite", "Postgres")
SERVER = os.environ.get("COMITY_BENCH_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")


class Place(Protocol):
    """A database that holds a store.

    Args:
        url: as `comity serve --store` takes it.
        key: the column by which a delivery's rows are found.
        last: SQL: a number that no delivery has passed yet.
        sums: statements that set right what is not copied.
    """

    url: str
    key: str
    last: str
    sums: Sequence[str]

    async def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns, in order."""

    async def change(self, statements: Sequence[str]) -> None:
        """Carry out statements in one transaction, as fast as a loss of power permits to regret."""

    async def value(self, query: str) -> Any:
        """Return the first column of the first row."""

    async def settle(self) -> None:
        """Leave the database as it is once the work behind a great change is done."""

    def identity(self, ms: str, number: str) -> str:
        """Return the SQL of an id (UUIDv7) of a time and a number."""

    def numbers(self, count: int) -> str:
        """Return the SQL of a table `numbers` with the column `value` from 1 on."""


@contextmanager
def place(kind: str) -> Iterator[Place | str]:
    """Give an empty store of a kind, "SQLite" or "Postgres", for the length of a block; or say why there is none."""
    if kind == "SQLite":
        with TemporaryDirectory() as folder:
            file = SqlitePlace(Path(folder) / "comity.db")
            _migrate(file.url)
            yield file
        return
    if peers.find("asyncpg") is None:
        yield "asyncpg is not installed"
        return
    name = f"comity_bench_{uuid4().hex}"
    with runner() as loop:
        try:
            loop.run(_order(f"CREATE DATABASE {name}"))
        except OSError:
            yield "no server runs"
            return
        try:
            database = PostgresPlace(urlsplit(SERVER)._replace(path=f"/{name}").geturl())
            _migrate(database.url)
            yield database
        finally:
            loop.run(_order(f"DROP DATABASE {name} WITH (FORCE)"))


class SqlitePlace:
    """A SQLite file.

    Args:
        path: of the file.
    """

    key, last = "n", "max(n)"
    sums: Sequence[str] = ()

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path

    async def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        with closing(sqlite3.connect(self._path)) as db:
            return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]

    async def change(self, statements: Sequence[str]) -> None:
        """Carry out statements in one transaction."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=OFF")
            db.execute("BEGIN")
            for statement in statements:
                db.execute(statement)
            db.execute("COMMIT")

    async def value(self, query: str) -> Any:
        """Return the first column of the first row."""
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute(query).fetchone()[0]

    async def settle(self) -> None:
        """Put everything on the disk, in its final place."""
        with closing(sqlite3.connect(self._path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        descriptor = os.open(self._path, os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)

    def identity(self, ms: str, number: str) -> str:
        """Return the SQL of an id."""
        return f"printf('%08x-%04x-7000-8000-%012x', ({ms}) >> 16, ({ms}) & 65535, {number})"

    def numbers(self, count: int) -> str:
        """Return the SQL of a table of numbers."""
        return (
            "(WITH RECURSIVE numbers (value) AS "
            f"(SELECT 1 UNION ALL SELECT value + 1 FROM numbers WHERE value < {count}) SELECT value FROM numbers) numbers"
        )


class PostgresPlace:
    """A Postgres database.

    Args:
        url: of the database.
    """

    key, last = "id", "count(*)"
    sums: Sequence[str] = ("UPDATE store SET seq = (SELECT max(seq) FROM events)",)

    def __init__(self, url: str) -> None:
        self.url = url

    async def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        names = "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute"
        found = await self.value(f"{names} WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped")
        return str(found).split(",")

    async def change(self, statements: Sequence[str]) -> None:
        """Carry out statements in one transaction."""
        db = await self._connect()
        try:
            async with db.transaction():
                await db.execute("SET LOCAL synchronous_commit = off")
                for statement in statements:
                    await db.execute(statement)
        finally:
            await db.close()

    async def value(self, query: str) -> Any:
        """Return the first column of the first row."""
        db = await self._connect()
        try:
            return await db.fetchval(query)
        finally:
            await db.close()

    async def settle(self) -> None:
        """Put everything on the disk, in its final place."""
        db = await self._connect()
        try:
            await db.execute("VACUUM ANALYZE")
            await db.execute("CHECKPOINT")
        finally:
            await db.close()

    def identity(self, ms: str, number: str) -> str:
        """Return the SQL of an id."""
        moment = f"lpad(to_hex({ms}), 12, '0')"
        return f"(left({moment}, 8) || '-' || right({moment}, 4) || '-7000-8000-' || lpad(to_hex({number}), 12, '0'))::uuid"

    def numbers(self, count: int) -> str:
        """Return the SQL of a table of numbers."""
        return f"generate_series(1::bigint, {count}) numbers (value)"

    async def _connect(self) -> Any:
        return await peers.need("asyncpg").connect(self.url, server_settings={"search_path": "comity"}, timeout=30)


def _migrate(url: str) -> None:
    with runner() as loop:
        loop.run(migrate_store(url))


async def _order(text: str) -> None:
    db = await peers.need("asyncpg").connect(SERVER)
    try:
        await db.execute(text)
    finally:
        await db.close()
