"""Committer: one connection that writes, and carries out what it is given in one transaction.

Calls of one kind are carried out together, whatever order they came in: those that wait together were made together. A
statement that fails undoes the transaction; its halves are then tried apart, and theirs, so that none fails for another's
fault. Where the whole store takes nothing, as with a full disk, all fail at once. What was undone for the sake of another
transaction, or because the connection was lost before the commit, is done again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from comity.errors import StoreError
from comity.store.ids import Ids
from comity.store.known import Known
from comity.store.postgres.connecting import Place
from comity.store.postgres.faults import AGAIN, BROKEN, DRIVER, WHOLE, fault
from comity.store.postgres.transaction import Transaction
from comity.store.sums import Results
from comity.store.work import Work, by_handler

A = TypeVar("A")
T = TypeVar("T")

Handler = Callable[[Transaction, list[A]], Awaitable[Results[T]]]
"""Carries out calls of one kind, in order; returns for each its result, or the error that its caller gets. A call that
gets an error has written nothing."""

NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000"
"""The database's time, ns since the epoch."""

_BEGUN = f"{NOW}, (SELECT generation FROM store)"  # noqa: S608 - a text of ours
"""The time, and of which generation the store's lanes are."""

_TRIES = 5

# Held together by any number of transactions, or alone by one, and given back by the commit.
_TOGETHER = "BEGIN; LOCK TABLE store IN ROW EXCLUSIVE MODE"
_ALONE = "BEGIN; LOCK TABLE store IN EXCLUSIVE MODE"


class Rules(NamedTuple):
    """What all committers of a store have in common.

    Args:
        place: where the store is.
        order: all handlers, in the order in which they lock (see `Transaction`).
        alone: those that must have the store to themselves.
        clock: from the database's time to the store's, ns.
        ageing: ns.
        told: called with the number of the last event after a commit that had any.
        ids: where new ids come from.
    """

    place: Place
    order: Sequence[Handler[Any, Any]]
    alone: frozenset[Handler[Any, Any]]
    clock: Callable[[int], int]
    ageing: int
    told: Callable[[int], None]
    ids: Ids


class _InDoubt(Exception):
    """The connection was lost during the commit.

    Args:
        results: what is true if it happened.
    """

    def __init__(self, results: list[Any]) -> None:
        super().__init__()
        self.results = results


class Committer:
    """One connection that writes, opened when it is needed.

    Args:
        rules: of the store.
        undo: takes what is to be undone, after a commit of which nobody knows whether it happened.

    Attributes:
        silent: what the last transaction failed with, if the database did not answer.
    """

    def __init__(self, rules: Rules, undo: Callable[[Work], None]) -> None:
        self._rules, self._undo = rules, undo
        self._rank = {handler: rank for rank, handler in enumerate(rules.order)}
        self._known = Known()
        self._db: Any = None
        self.silent: StoreError | None = None

    async def commit(self, works: list[Work]) -> list[Any]:
        """Carry out all of it in one transaction; return the results or errors."""
        lost = tries = 0
        self.silent = None
        while True:
            tries += 1
            try:
                return await self._transact(works)
            except _InDoubt as doubt:
                self._known.clear()  # of what was seen there nothing may be committed
                self._drop()  # it may still stand there with a question of which nobody reads the answer
                return [self._doubted(work, result) for work, result in zip(works, doubt.results, strict=True)]
            except Exception as error:  # noqa: BLE001 - whatever it is concerns its caller, and not those who come later
                self._known.clear()
                if self._db is None or self._db.is_closed() or isinstance(error, BROKEN):
                    self._drop()
                    lost += 1
                    if isinstance(error, TimeoutError):
                        self.silent = fault(error)
                        return [self.silent] * len(works)
                    # The first loss is one that was noticed late: the server may long be back.
                    if lost > 1 or not isinstance(error, DRIVER):
                        return [_told_as(error)] * len(works)
                    continue
                with contextlib.suppress(*DRIVER):  # a connection that fails now is noticed by the next transaction
                    await self._db.execute("ROLLBACK")
                if isinstance(error, AGAIN) and tries < _TRIES:
                    continue
                if len(works) == 1 or isinstance(error, WHOLE):
                    return [_told_as(error)] * len(works)
                half = len(works) // 2
                return [*await self.commit(works[:half]), *await self.commit(works[half:])]

    async def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            with contextlib.suppress(*DRIVER):
                await self._db.close(timeout=1)
            self._drop()

    async def _transact(self, works: list[Work]) -> list[Any]:
        if self._db is None:
            self._db = await self._rules.place.connect()
        db = self._db
        kinds = by_handler(works)
        await db.execute(_TOGETHER if self._rules.alone.isdisjoint(kinds) else _ALONE)
        now, generation = await db.fetchrow(_BEGUN)
        # Lanes are changed by who is alone, so what is right now is right until the commit.
        self._known.be_of(generation)
        now = self._rules.clock(now)
        transaction = Transaction(db, now=now, ageing=self._rules.ageing, ids=self._rules.ids, known=self._known)
        results = await self._carried_out(transaction, works, kinds)
        last = await transaction.write_sums()
        try:
            await db.execute("COMMIT")
        except DRIVER as error:
            if db.is_closed() or isinstance(error, BROKEN):
                raise _InDoubt(results) from error
            raise
        if last is not None:
            self._rules.told(last)
        return results

    async def _carried_out(
        self, transaction: Transaction, works: list[Work], kinds: Mapping[Handler[Any, Any], list[int]]
    ) -> list[Any]:
        results: list[Any] = [None] * len(works)
        for handler in sorted(kinds, key=self._rank.__getitem__):
            places = kinds[handler]
            found = await handler(transaction, [works[place].argument for place in places])
            for place, result in zip(places, found, strict=True):
                results[place] = result
        return results

    def _doubted(self, work: Work, result: Any) -> StoreError:
        """Return what the caller is told; what it should not keep unknowingly is undone, if it is there."""
        if (undoing := work.undoing(result)) is not None:
            self._undo(undoing)
        return StoreError("Postgres: the connection was lost during the commit: whether this was stored is not known")

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.terminate()


def _told_as(error: Exception) -> Exception:
    return fault(error) if isinstance(error, DRIVER) else error
