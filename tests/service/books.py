"""Books: what a store says of its deliveries, against itself and against what arrived; the same for every database."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import asynccontextmanager

from comity.service.stores import open_store
from comity.store.records import ENDS, Query
from comity.store.transitions import MOST_CRASHES
from comity.testing.conformance.stage import everything

ALIVE = ("pending", "retrying")
AGAIN = "again"
"""The lane of what is replayed: its ends are not for good, and of one delivery several attempts may complete."""


@asynccontextmanager
async def opened(url):
    """Have a store open."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


class Books:
    """What was seen of the deliveries so far."""

    def __init__(self):
        self._alive, self._ended = set(), {}

    async def look(self, store):
        """See that counted attempts are rows, at any moment, of whatever was alive when it was looked at before, or is now."""
        now = {each.id for state in ALIVE for each in await everything(store, Query(state=state), 1000)}
        for number in self._alive | now:
            found, _ = await of(store, number)
            if found.state in ENDS and found.lane != AGAIN:
                self._ended[number] = found
        self._alive = now

    async def close(self, store, arrivals):
        """See how all came to its end: once, for good, and with every arrival accounted for.

        Args:
            store: nobody else uses it.
            arrivals: how often each URL was sent to; there is one for each delivery, and for each schedule.
        """
        found = {each.id: each for each in await everything(store, most=1000)}
        counts = await store.counts()
        states = Counter(each.state for each in found.values())
        assert Counter({state: getattr(counts, state) for state in (*ALIVE, *ENDS)}) == states
        assert (counts.pending, counts.retrying, counts.ready, counts.held) == (0, 0, 0, 0)
        assert {number: found[number] for number in self._ended} == self._ended
        apart = [each.url for each in found.values() if each.schedule is None]
        assert len(set(apart)) == len(apart)
        assert arrivals.keys() <= {each.url for each in found.values()}
        sent = defaultdict(Counter)
        for number in found:
            delivery, rows = await of(store, number)
            assert await store.payload(number) is not None
            decisions = Counter(each.decision for each in rows if each.sent != "no")
            _explain(delivery, decisions)
            assert delivery.mode != "at_most_once" or arrivals[delivery.url] <= 1
            sent[delivery.url] += decisions
        for url, decisions in sent.items():
            # What arrived more often than its attempts have an outcome arrived in one that reads `unknown`.
            known = decisions.total() - decisions["unknown"]
            assert known <= arrivals[url] <= decisions.total(), (url, arrivals[url], decisions)


async def of(store, number):
    """Return a delivery and its attempts as they stood at one moment."""
    while True:
        before, rows, after = await store.get(number), await store.attempts(number), await store.get(number)
        if before == after:
            assert [row.number for row in rows] == list(range(1, before.attempts + 1)), (before, rows)
            return before, rows


def _explain(delivery, decisions):
    once = delivery.mode == "at_most_once"
    # One that was under way at six kills in a row is held to be what kills.
    allowed = {"outcome unknown"} if once else {"poison"} if decisions["unknown"] > MOST_CRASHES else set()
    removed = delivery.schedule is not None and delivery.state == "cancelled"
    assert delivery.state == "completed" or removed or delivery.reason in allowed, (
        delivery,
        delivery.reason,
        decisions,
    )
    completed = decisions["completed"]
    assert bool(completed) >= (delivery.state == "completed"), (delivery, decisions)
    assert delivery.lane == AGAIN or completed == (delivery.state == "completed"), (delivery, decisions)
    assert decisions["sending"] == 0
