"""Postgres: whole lives of deliveries per second, as in `store`, in a database that several processes could share.

The measure is pgbench's own transaction (like TPC-B) on the same server, as many at once as suit it, in the same run.
COMITY_BENCH_POSTGRES names the server; otherwise it is the one that runs on this machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit
from uuid import uuid4

from benchmarks import peers
from benchmarks.loops import runner
from benchmarks.paired import interleave
from benchmarks.row import Row
from benchmarks.store import HOUR, SUBMITTERS, lives_of

RUNNING = "postgresql://postgres@127.0.0.1:5432/test"
CLIENTS = 16
WHAT = f"store: Postgres, lives of deliveries of {SUBMITTERS} submitters, to pgbench's TPC-B of {CLIENTS}"


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure, and yield the row."""
    dsn = os.environ.get("COMITY_BENCH_POSTGRES", RUNNING)
    if peers.find("asyncpg") is None or shutil.which("pgbench") is None:
        yield Row.absent(WHAT)
        return
    schema = f"bench_{uuid4().hex}"
    many, seconds, scale, least, most = (1_000, 1, 1, 2, 3) if quick else (20_000, 5, CLIENTS, 5, 9)
    with runner() as loop:
        try:
            loop.run(_sql(dsn, f"CREATE SCHEMA {schema}_bench"))
        except OSError:
            yield Row.absent(WHAT, "no server runs")
            return
        try:
            _pgbench(dsn, f"{schema}_bench", "-i", "-q", "-s", str(scale))
            yield _lives_row(loop, dsn, schema, many=many, seconds=seconds, least=least, most=most)
        finally:
            loop.run(_sql(dsn, f"DROP SCHEMA {schema}_bench CASCADE; DROP SCHEMA IF EXISTS {schema} CASCADE"))


def _lives_row(loop: asyncio.Runner, dsn: str, schema: str, *, many: int, seconds: int, least: int, most: int) -> Row:
    from comity.store.postgres.migrations import migrate
    from comity.store.postgres.store import PostgresStore

    async def opened() -> PostgresStore:
        await migrate(dsn, schema=schema)
        return await PostgresStore.open(dsn, schema=schema)

    store = loop.run(opened())
    lease = loop.run(store.register("benchmark", HOUR))

    def lives() -> float:
        return float(loop.run(lives_of(store, lease, many)))

    def transactions() -> float:
        clients = ("-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-n", "-M", "prepared")
        said = _pgbench(dsn, f"{schema}_bench", *clients)
        found = re.search(r"^tps = ([\d.]+)", said, re.MULTILINE)
        assert found is not None
        return float(found[1])

    rounds = interleave({"lives": lives, "tpc": transactions}, [("lives", "tpc")], least=least, most=most)
    loop.run(store.close())
    return Row.paired(WHAT, rounds.figure("lives"), rounds.figure("tpc"), rounds.ratio("lives", "tpc"), "/s", least=5)


def _pgbench(dsn: str, schema: str, *arguments: str) -> str:
    place = urlsplit(dsn)
    environment = {**os.environ, "PGOPTIONS": f"-c search_path={schema}", "PGPASSWORD": place.password or ""}
    where = ["-h", place.hostname or "127.0.0.1", "-p", str(place.port or 5432), "-U", place.username or "postgres"]
    command = ["pgbench", *arguments, *where, place.path.lstrip("/")]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


async def _sql(dsn: str, text: str) -> None:
    connection = await peers.need("asyncpg").connect(dsn)
    try:
        await connection.execute(text)
    finally:
        await connection.close()
