"""A Postgres server for all tests of stores, started when the first of them asks for one."""

from __future__ import annotations

import os

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
async def postgres_stage(postgres):
    stage = PostgresStage(postgres)
    yield stage
    await stage.remove()
