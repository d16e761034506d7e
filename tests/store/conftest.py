"""A Postgres server for all tests of stores, started when the first of them asks for one."""

from __future__ import annotations

import os
import uuid
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.store.postgres_server import RUNNING, EmbeddedServer, answers
from tests.store.postgres_stage import PostgresStage


@pytest.fixture(scope="session")
def postgres():
    wanted = os.environ.get("COMITY_TEST_POSTGRES", RUNNING)
    if wanted != "embedded" and (wanted != RUNNING or answers(wanted)):
        yield wanted
        return
    server = EmbeddedServer()
    yield server.dsn
    server.remove()


@pytest.fixture
async def database(postgres):
    """A database of its own, as a URL: the schema of a URL's store is always the same."""
    name = f"test_{uuid.uuid4().hex}"
    server = await asyncpg.connect(postgres)
    await server.execute(f"CREATE DATABASE {name}")
    yield urlsplit(postgres)._replace(path=f"/{name}").geturl()
    await server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await server.close()


@pytest.fixture
async def postgres_stage(postgres):
    stage = PostgresStage(postgres)
    yield stage
    await stage.remove()
