"""Migrations: the schema changes when somebody asks for it, and only upwards."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import closing

import pytest

from comity.errors import StoreError
from comity.store.schema import numbered
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing.conformance.stage import new

FILES = numbered("sqlite")
NEWEST = len(FILES)
LATER = (f"{NEWEST + 1:04}_later", "ALTER TABLE lanes ADD COLUMN later INTEGER NOT NULL DEFAULT 7;")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


def schema(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()


def refusal(path):
    with pytest.raises(StoreError) as refused:
        SqliteStore(path)
    return refused.value


def test_files_are_numbered_without_a_gap():
    assert [int(name.partition("_")[0]) for name, _ in FILES] == list(range(1, NEWEST + 1))


def test_a_new_file_is_made_by_migrating_and_not_by_opening(path):
    """NP-034"""
    assert refusal(path).reason == "schema"
    assert not path.exists()
    path.touch()
    assert "the store is empty: migrate it first" in str(refusal(path))
    assert migrate(path) == [name for name, _ in FILES]
    assert migrate(path) == []


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_new_code_on_an_old_schema_refuses_and_changes_nothing(path, version):
    """NP-034"""
    migrate(path, to=version)
    before = schema(path)
    error = refusal(path)
    assert error.reason == "schema"
    assert f"has schema {version} and this version needs {NEWEST}" in str(error)
    assert schema(path) == before


@pytest.mark.parametrize("version", range(1, NEWEST))
async def test_an_old_store_that_is_migrated_is_as_a_new_one_and_keeps_its_rows(tmp_path, path, version):
    """NP-034"""
    migrate(path, to=version)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO origins (name) VALUES ('https://old:443')")
        db.execute("INSERT INTO lanes (key, origin) VALUES ('old', 1)")
    assert migrate(path) == [name for name, _ in FILES[version:]]
    migrate(tmp_path / "new.sqlite")
    assert schema(path) == schema(tmp_path / "new.sqlite")
    store = SqliteStore(path)
    await store.submit([new(lane="old", origin="https://old:443")])
    assert [(lane.key, lane.counts.pending) for lane in await store.lanes()] == [("old", 1)]
    await store.close()


async def test_a_store_in_use_is_brought_up_to_a_later_version_with_all_that_it_holds(path, monkeypatch):
    """NP-034"""
    migrate(path)
    store = SqliteStore(path)
    (made,) = await store.submit([new(lane="old")])
    await store.close()
    monkeypatch.setattr("comity.store.sqlite.migrations.numbered", lambda _: (*FILES, LATER))
    assert f"has schema {NEWEST} and this version needs {NEWEST + 1}" in str(refusal(path))
    assert migrate(path) == [LATER[0]]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT key, later FROM lanes").fetchall() == [("old", 7)]
    store = SqliteStore(path)
    assert await store.get(made.id) is not None
    await store.close()


def test_a_newer_schema_is_refused_by_all(path):
    migrate(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={NEWEST + 1}")
    for use in (SqliteStore, migrate):
        with pytest.raises(StoreError, match="use the newer comity") as refused:
            use(path)
        assert refused.value.reason == "schema"


def test_another_programs_database_is_left_alone(path):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE theirs (x)")
    before = schema(path)
    for use in (SqliteStore, migrate):
        with pytest.raises(StoreError, match="no store of comity"):
            use(path)
    assert schema(path) == before


def test_what_fails_within_a_migration_is_undone(path, monkeypatch):
    broken = (FILES[0], ("0002_broken", "CREATE TABLE half (x) STRICT; CREATE TABLE lanes (x);"))
    monkeypatch.setattr("comity.store.sqlite.migrations.numbered", lambda _: broken)
    with pytest.raises(StoreError):
        migrate(path)
    monkeypatch.undo()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT name FROM sqlite_schema WHERE name = 'half'").fetchall() == []
    assert migrate(path) == [name for name, _ in FILES[1:]]


def test_a_sqlite_that_is_too_old_is_refused(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(StoreError, match=r"needs SQLite 3\.37\.0") as refused:
        migrate(path)
    assert refused.value.reason == "schema"


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such modes there")
async def test_a_new_file_is_its_owners_alone(path):
    """What is delivered may hold secrets; the log beside it holds the same."""
    before = os.umask(0o022)
    try:
        migrate(path)
        store = SqliteStore(path)
        await store.submit([new(1)])
    finally:
        os.umask(before)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    await store.close()
    assert "store.sqlite-wal" in modes
    assert set(modes.values()) == {0o600}
