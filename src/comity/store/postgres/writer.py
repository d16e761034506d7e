"""Writer: two connections, and many who wait for the same commit.

Whatever waits when a connection is free becomes its next transaction, so the database's own pace decides how much shares a
commit and nobody is held back for company. While one connection waits for the disk the other does what it may before its own
turn to commit comes (see `Transaction`). Only when the commit is on the disk is anybody told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from comity.errors import StoreError
from comity.store.postgres.committer import Committer, Handler, Rules
from comity.store.work import BaseWriter, Work

A = TypeVar("A")
T = TypeVar("T")

CONNECTIONS = 2
"""One at its commit, one before it; a third only waits with them."""

_MOST = 2000
"""So many calls share a commit at most: later ones would wait too long for theirs."""


class Writer(BaseWriter):
    """The one that writes.

    Args:
        rules: of the store.
    """

    def __init__(self, rules: Rules) -> None:
        self._waiting: deque[Work] = deque()
        self._owed: list[Work] = []  # what is to be undone, when the database is back
        self._closing = False
        self._hands = [_Hand(Committer(rules, self._waiting.appendleft)) for _ in range(CONNECTIONS)]
        self._tasks = [asyncio.create_task(self._run(hand)) for hand in self._hands]

    async def do(self, handler: Handler[A, T], argument: A, undo: Callable[[T], Work] | None = None) -> T:
        """Have a call carried out; return its result when that is on the disk."""
        return await self._do(handler, argument, undo)

    async def close(self) -> None:
        """Carry out what waits and end."""
        self._closing = True
        for hand in self._hands:
            hand.wake.set()
        await asyncio.gather(*self._tasks)
        for hand in self._hands:
            await hand.committer.close()

    def _put(self, work: Work) -> None:
        if self._closing:
            raise StoreError("the store is closed", reason="closed")
        self._waiting.extend(self._owed)
        self._owed.clear()
        self._waiting.append(work)
        # The first that is free: it takes all that comes in the same moment.
        for hand in self._hands:
            if not hand.busy:
                hand.wake.set()
                return

    async def _run(self, hand: _Hand) -> None:
        while True:
            await hand.wake.wait()
            hand.wake.clear()
            hand.busy = True
            while self._waiting:
                some = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
                works = [work for work in some if work.future is None or not work.future.cancelled()]
                if works:
                    self._tell(works, await hand.committer.commit(works))
                    if (silent := hand.committer.silent) is not None:
                        # Who came meanwhile does not wait as long once more, and all behind them yet another time.
                        late = [*self._waiting]
                        self._waiting.clear()
                        self._tell(late, [silent] * len(late))
            hand.busy = False
            if self._closing:
                return

    def _tell(self, works: list[Work], results: list[Any]) -> None:
        for work, result in zip(works, results, strict=True):
            if work.future is None:
                if isinstance(result, StoreError):
                    self._owed.append(work)
            elif not work.settle(result) and (undoing := work.undoing(result)) is not None:
                self._waiting.append(undoing)


class _Hand:
    """What carries out one transaction after the other."""

    def __init__(self, committer: Committer) -> None:
        self.committer = committer
        self.wake = asyncio.Event()
        self.busy = False
