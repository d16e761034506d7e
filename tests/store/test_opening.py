"""Opening: a URL leads to its database; serve and worker use either."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.service.stores import migrate_store, open_store, sqlite_file
from comity.store.records import NewDelivery


async def stored(url):
    """Store a delivery behind a URL; return whether it is there."""
    await migrate_store(url)
    store = await open_store(url)
    (made,) = await store.submit([NewDelivery(origin="https://a.example", method="GET", url="https://a.example/")])
    found = await store.get(made.id)
    await store.close()
    return found is not None


async def test_a_file_is_made_and_opened(tmp_path):
    assert await stored(f"sqlite:///{tmp_path / 'x.db'}")


async def test_a_postgres_database_is_made_and_opened(database):
    assert await stored(database)


@pytest.mark.parametrize("url", ["x.db", "sqlite://x.db", "sqlite:///", "mysql://me:hunter2@h/x"])
def test_what_is_no_store_is_refused_without_its_password(url):
    with pytest.raises(OptionsError) as refused:
        sqlite_file(url)
    assert "hunter2" not in str(refused.value)
