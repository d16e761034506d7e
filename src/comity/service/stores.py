"""Stores: which database a URL means."""

from __future__ import annotations

from pathlib import Path

from comity.errors import OptionsError
from comity.store.base import Store

_ALLOWED = "sqlite:///FILE such as sqlite:///comity.db, or sqlite:////var/lib/comity.db for an absolute path"


def sqlite_file(url: str, option: str = "store") -> Path:
    """Return the file that a URL means.

    Raises:
        OptionsError: it is none of a store.
    """
    scheme, mark, path = url.partition(":///")
    if scheme != "sqlite" or not mark or not path:
        raise OptionsError(option, url.partition("@")[0] if "@" in url else url, _ALLOWED)
    return Path(path)


def open_store(url: str) -> Store:
    """Open a store.

    Raises:
        OptionsError: the URL is none of a store.
        StoreError: it cannot be opened, or waits to be migrated.
    """
    from comity.store.sqlite.store import SqliteStore

    return SqliteStore(sqlite_file(url))


def migrate_store(url: str) -> list[str]:
    """Make a store, or bring it up to date; return the names of what was applied.

    Raises:
        OptionsError: the URL is none of a store.
        StoreError: it cannot be opened.
    """
    from comity.store.sqlite.migrations import migrate

    return migrate(sqlite_file(url))
