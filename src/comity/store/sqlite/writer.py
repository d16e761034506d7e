"""Writer: one thread, one connection, and many who wait for the same commit.

Whatever waits when a commit ends becomes the next transaction, so the disk's own pace decides how much shares a commit and
nobody is held back for company. A statement that fails undoes the transaction; its halves are then tried apart, and theirs,
so that none fails for another's fault. Only when the commit is on the disk is anybody told.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread
from typing import Any, TypeVar

from comity.errors import StoreError
from comity.store.bell import Bell
from comity.store.ids import Ids
from comity.store.known import Known
from comity.store.sqlite.faults import fault
from comity.store.sqlite.files import Files
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results
from comity.store.work import BaseWriter, Work, by_handler

A = TypeVar("A")
T = TypeVar("T")

Handler = Callable[[Transaction, list[A]], Results[T]]
"""Carries out calls of one kind, in order; returns for each its result, or the error that its caller gets. A call that
gets an error has written nothing."""


class Writer(BaseWriter):
    """The one that writes.

    Args:
        path: the file, for messages.
        files: what is looked after before each commit.
        db: a connection that any thread may use; only the writer's does from now on.
        clock: ns since the epoch.
        ageing: ns.
    """

    def __init__(self, path: Path, files: Files, db: sqlite3.Connection, clock: Callable[[], int], ageing: int) -> None:
        self._path, self._files, self._db, self._clock, self._ageing = path, files, db, clock, ageing
        self._ids, self._known = Ids(), Known()
        self._waiting: deque[Work] = deque()
        self._wake = Condition()
        self._closing = False
        self.bell = Bell(db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])
        self._thread = Thread(target=self._run, name="comity-store", daemon=True)
        self._thread.start()

    async def do(self, handler: Handler[A, T], argument: A, undo: Callable[[T], Work] | None = None) -> T:
        """Have a call carried out; return its result when that is on the disk."""
        return await self._do(handler, argument, undo)

    def close(self) -> None:
        """Carry out what waits and end the thread; blocks until then. The connection stays open."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _put(self, work: Work) -> None:
        with self._wake:
            if self._closing:
                raise StoreError(f"{self._path}: the store is closed", reason="closed")
            self._waiting.append(work)
            if len(self._waiting) == 1:
                self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting:
                    if self._closing:
                        return
                    self._wake.wait()
                works = [work for work in self._waiting if work.future is None or not work.future.cancelled()]
                self._waiting.clear()
            self._tell(works, self._commit(works))

    def _commit(self, works: list[Work]) -> list[Any]:
        """Carry out all of it in one transaction; return the results or errors."""
        try:
            self._files.check()
            self._db.execute("BEGIN IMMEDIATE")
        except StoreError as error:
            return [error] * len(works)
        except sqlite3.Error as error:
            return [fault(self._path, error)] * len(works)
        now = self._clock()
        transaction = Transaction(self._db, now=now, ageing=self._ageing, ids=self._ids, known=self._known)
        try:
            results = _carried_out(transaction, works)
            rang = transaction.write_sums()
        except Exception as error:  # noqa: BLE001 - whatever it is concerns its caller, and not those who come later
            self._undo()
            if len(works) == 1:
                return [fault(self._path, error) if isinstance(error, sqlite3.Error) else error]
            half = len(works) // 2
            return [*self._commit(works[:half]), *self._commit(works[half:])]
        try:
            last = self._db.execute("SELECT max(seq) FROM events").fetchone()[0] if rang else None
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            return [fault(self._path, error)] * len(works)
        if last is not None:
            self.bell.ring(last)
        return results

    def _undo(self) -> None:
        self._known.clear()
        if self._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # a disk that fails is the error that is told already
                self._db.execute("ROLLBACK")

    def _tell(self, works: list[Work], results: list[Any]) -> None:
        told: defaultdict[asyncio.AbstractEventLoop, list[tuple[Work, Any]]] = defaultdict(list)
        for work, result in zip(works, results, strict=True):
            if work.future is not None:
                told[work.future.get_loop()].append((work, result))
        for loop, done in told.items():
            try:
                loop.call_soon_threadsafe(self._settle, done)
            except RuntimeError:  # the loop was closed: nobody waits any more
                self._take_back(done)

    def _settle(self, done: list[tuple[Work, Any]]) -> None:
        self._take_back([(work, result) for work, result in done if not work.settle(result)])

    def _take_back(self, gone: list[tuple[Work, Any]]) -> None:
        for work, result in gone:
            if (undoing := work.undoing(result)) is not None:
                with contextlib.suppress(StoreError):  # closed: the lease runs out
                    self._put(undoing)


def _carried_out(transaction: Transaction, works: list[Work]) -> list[Any]:
    results: list[Any] = [None] * len(works)
    for handler, places in by_handler(works).items():
        found = handler(transaction, [works[place].argument for place in places])
        for place, result in zip(places, found, strict=True):
            results[place] = result
    return results
