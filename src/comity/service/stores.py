"""Stores: which database a URL means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from comity import redact
from comity.errors import OptionsError
from comity.store.base import Store

_ALLOWED = "sqlite:///FILE (sqlite:////var/lib/comity.db for an absolute path) or postgresql://user@host/database"


def sqlite_file(url: str, option: str = "--store") -> Path | None:
    """Return the file that a URL means; None when it means a Postgres database.

    Raises:
        OptionsError: it is none of a store.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return None
    scheme, mark, path = url.partition(":///")
    if scheme != "sqlite" or not mark or not path:
        raise OptionsError(option, redact.url(url), _ALLOWED)
    return Path(path)


async def open_store(url: str) -> Store:
    """Open a store.

    Raises:
        OptionsError: the URL is none of a store.
        StoreError: it cannot be opened, or waits to be migrated.
    """
    file = sqlite_file(url)
    if file is None:
        from comity.store.postgres.store import PostgresStore

        with _called_by_its_option():
            return await PostgresStore.open(url)
    from comity.store.sqlite.store import SqliteStore

    return SqliteStore(file)


async def migrate_store(url: str) -> list[str]:
    """Make a store, or bring it up to date; return the names of what was applied.

    Raises:
        OptionsError: the URL is none of a store.
        StoreError: it cannot be opened.
    """
    file = sqlite_file(url)
    if file is None:
        from comity.store.postgres.migrations import migrate

        with _called_by_its_option():
            return await migrate(url)
    from comity.store.sqlite import migrations

    return migrations.migrate(file)


@contextmanager
def _called_by_its_option() -> Iterator[None]:
    try:
        yield
    except OptionsError as error:
        raise OptionsError("--store", error.value, _ALLOWED, reason=error.reason) from None
