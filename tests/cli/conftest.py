"""A Postgres server for commands, as the tests of stores have one."""

from __future__ import annotations

from tests.store.conftest import database, postgres

__all__ = ["database", "postgres"]
