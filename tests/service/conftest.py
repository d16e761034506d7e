"""What touches the wire is tested on both event loops; kills and outages need a Postgres server, as the tests of stores do."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from tests.store.conftest import database, postgres, postgres_stage

__all__ = ["database", "postgres", "postgres_stage"]

BOTH = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ON_THE_WIRE = {"test_guard"}


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item):
    """Return the loops that a test runs on."""
    return BOTH if item.path.stem in ON_THE_WIRE else {"asyncio": asyncio.new_event_loop}
