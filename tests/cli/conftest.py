"""A Postgres server for commands, as the tests of stores have one."""

from __future__ import annotations

from tests.store.conftest import postgres

__all__ = ["postgres"]
