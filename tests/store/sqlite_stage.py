"""A SQLite store for one test, on a clock that the test moves."""

from __future__ import annotations

import shutil

from comity.policy.units import NS
from comity.store.sqlite.migrations import migrate
from comity.store.sqlite.store import SqliteStore
from comity.testing.conformance import Stage


class SqliteStage(Stage):
    """A file in a directory.

    Args:
        directory: an empty one.
    """

    def __init__(self, directory):
        self._directory = directory
        self._copies = 0
        self.moment = 1_800_000_000 * NS
        self.path = directory / "store.sqlite"
        migrate(self.path)

    async def open(self):
        return SqliteStore(self.path, clock=lambda: self.moment)

    async def crash(self, store):
        # What stands in the two files is what a process that dies now leaves behind; the third is an index of the second.
        self._copies += 1
        before, self.path = self.path, self._directory / f"copy{self._copies}.sqlite"
        for ending in ("", "-wal"):
            if (source := before.with_name(before.name + ending)).exists():
                shutil.copyfile(source, self.path.with_name(self.path.name + ending))
        await store.close()
        return await self.open()

    def advance(self, ns):
        self.moment += ns
