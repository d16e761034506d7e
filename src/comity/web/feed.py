"""Feed: the store's events, read once for everybody who follows them.

The newest stay in memory, each with its text; who asks for older ones reads the store. So each of hundreds of followers costs
little more than what is written to it, and one that is slow holds nothing up: it has its own place in a log that is on the disk.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from types import TracebackType
from typing import Self

from comity.errors import StoreError
from comity.store.base import Store
from comity.store.records import ENDS, Event
from comity.web.message import Message

_KEPT = 2_000
_PAGE = 500
_AGAIN = 1.0


class Feed:
    """Follows a store's events while it is open.

    Args:
        store: whose.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: list[Message] = []
        self._news = asyncio.Event()
        self._ends: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self.last = 0

    async def __aenter__(self) -> Self:
        self.last = await self._store.last_event()
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """Send everybody who waits home, and let nobody wait any more."""
        self._stopped.set()
        self._news.set()
        for futures in self._ends.values():
            for future in futures:
                _wake(future)

    async def over(self) -> None:
        """Return when nobody reads any more, which does not come by itself.

        Raises:
            Exception: what the reading failed with; an outage of the store is waited for.
        """
        assert self._task is not None
        await asyncio.wait([self._task])
        self._task.result()

    @property
    def stopped(self) -> bool:
        """Whether nobody may wait any more."""
        return self._stopped.is_set()

    async def after(self, seq: int, wait: float) -> Sequence[Message]:
        """Return events that follow the number `seq`, in order; none when the time is over or the feed has stopped.

        Raises:
            StoreError: older ones cannot be read.
        """
        if seq >= self.last:
            try:
                async with asyncio.timeout(wait):
                    while seq >= self.last and not self.stopped:
                        await self._news.wait()
            except TimeoutError:
                return ()
        if self._kept and self._kept[0].seq <= seq + 1:
            first = bisect_right(self._kept, seq, key=_seq)
            return self._kept[first : first + _PAGE]
        return () if seq >= self.last else [Message(event) for event in await self._store.events(seq, _PAGE)]

    async def ended(self, delivery: str, wait: float, is_over: Callable[[], Awaitable[bool]]) -> None:
        """Return when a delivery comes to an end, when the time is over, or when the feed has stopped.

        Args:
            delivery: its id.
            wait: seconds at most.
            is_over: looks whether it is at its end already; asked once, when nothing can be missed any more.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends[delivery].add(future)
        try:
            async with asyncio.timeout(wait):
                if not self.stopped and not await is_over():
                    await future
        except TimeoutError:
            pass
        finally:
            self._ends[delivery].discard(future)
            if not self._ends[delivery]:
                del self._ends[delivery]

    async def _read(self) -> None:
        while True:
            try:
                await self._store.newer(self.last)
                events = await self._store.events(self.last, _PAGE)
            except StoreError:
                await asyncio.sleep(_AGAIN)
                continue
            for event in events:
                self._take(event)
            self._news.set()
            if not self.stopped:
                self._news = asyncio.Event()

    def _take(self, event: Event) -> None:
        self._kept.append(Message(event))
        if len(self._kept) >= 2 * _KEPT:
            del self._kept[:-_KEPT]
        self.last = event.seq
        if event.kind in ENDS:
            for future in self._ends.get(event.delivery or "", ()):
                _wake(future)


_seq = attrgetter("seq")


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
