"""Filling: millions of deliveries in a store, in the time that the database takes to copy rows.

One delivery is taken through its life by the store itself, so that its rows are what they would be; these are then copied.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.places import Place
from comity.service.stores import open_store
from comity.store.base import Store
from comity.store.records import Answer, Ended, NewDelivery

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND

ENDS = {
    "completed": Ended(then="completed", status=200, sent_ago=2, answered_ago=1, answer=Answer(status=200, body=b"{}")),
    "failed": Ended(then="failed", status=500, reason="attempts", sent_ago=2, answered_ago=1),
}

ROWS = ("deliveries", "payloads", "attempts", "answers")
"""The tables of what a delivery is."""
ALL = (*ROWS, "keys", "events")
"""And of what is told of it besides."""

_EVENTS = 10
"""More than one life has, with what else happened meanwhile."""

_TIMES = {"rank", "created_at", "enqueued_at", "due_at", "idle_since", "ended_at"}
_TIMES |= {"started_at", "sent_at", "answered_at", "at"}


async def fill(
    place: Place,
    template: NewDelivery,
    rows: int,
    end: str | None = None,
    *,
    age: int = 0,
    tables: Sequence[str] = ROWS,
) -> None:
    """Add so many deliveries like one, as if they had come evenly over an hour.

    What ended is filled before what waits, and what is older before what is younger.

    Args:
        place: where; nobody has it open.
        template: what they are like; with an idempotency key each has one of its own.
        rows: how many.
        end: how they ended, "completed" or "failed"; None: they wait.
        age: ns since the end of that hour.
        tables: ROWS, or ALL.
    """
    store = await open_store(place.url)
    try:
        made = await _life(store, template, end)
    finally:
        await store.close()
    copies = _Copies(place, made, rows, before=await place.value(f"SELECT {place.last} FROM deliveries"), age=age)
    statements = [copies.of(table, await place.columns(table)) for table in tables]
    await place.change([*statements, *copies.sums(end), *copies.without_the_first()])
    await place.settle()


async def _life(store: Store, template: NewDelivery, end: str | None) -> str:
    """Take a delivery to its end; return its id."""
    lease = await store.register("filling", HOUR)
    (made,) = await store.submit([template])
    if end is not None:
        await store.own(lease, 1_000)
        (claim,) = (await store.claim(lease, 1)).claims
        await store.begin(claim)
        await store.finish(claim, ENDS[end])
    await store.resign(lease)
    return made.id


class _Copies:
    """The SQL that makes copies of one delivery, which itself goes in the end.

    Args:
        place: whose SQL.
        made: the delivery's id.
        rows: how many.
        before: the last number that is taken.
        age: ns.
    """

    def __init__(self, place: Place, made: str, rows: int, *, before: int, age: int) -> None:
        self._place, self._made, self._rows = place, made, rows
        self._numbers = place.numbers(rows)
        self._number = f"({before} + value)"
        step = HOUR // rows
        past = time.time_ns() - age - HOUR
        self._moment = f"{past} + value * {step}"
        self._id = place.identity(f"({self._moment}) / 1000000", self._number)
        self._row = f"(SELECT {place.key} FROM deliveries WHERE id = '{made}')"

    def of(self, table: str, columns: list[str]) -> str:
        """Return what copies the delivery's rows of a table."""
        begun = f"(SELECT created_at FROM deliveries WHERE id = '{self._made}')"
        told: list[str] = []
        for name in columns:
            if name in _TIMES:
                told.append(f"t.{name} - {begun} + {self._moment}")
            elif name in {"id", "delivery"}:
                told.append(self._id)
            elif name == "n":
                told.append(self._number)
            elif name in {"key", "idempotency_key"}:
                told.append(f"t.{name} || ' ' || {self._number}")
            elif name == "seq":
                first = f"(SELECT min(seq) FROM events WHERE delivery = '{self._made}')"
                told.append(f"(SELECT max(seq) FROM events) + value * {_EVENTS} + t.seq - {first}")
            else:
                told.append(f"t.{name}")
        return (
            f"INSERT INTO {table} ({', '.join(columns)}) "
            f"SELECT {', '.join(told)} FROM {table} t CROSS JOIN {self._numbers} WHERE {self._chosen(table)}"
        )

    def sums(self, end: str | None) -> list[str]:
        """Return what makes the counts true."""
        more, ready = self._rows - 1, self._rows - 1 if end is None else 0
        lane = f"(SELECT lane FROM deliveries WHERE id = '{self._made}')"
        state = end or "pending"
        return [
            f"UPDATE lanes SET {state} = {state} + {more}, ready = ready + {ready} WHERE id = {lane}",
            f"UPDATE origins SET live = live + {ready} WHERE id = (SELECT origin FROM lanes WHERE id = {lane})",
            *self._place.sums,
        ]

    def without_the_first(self) -> list[str]:
        """Return what takes the delivery away that was copied."""
        # Its events stay: the number of the last is the store's.
        tables = ("keys", "answers", "attempts", "payloads", "deliveries")
        return [f"DELETE FROM {table} AS t WHERE {self._chosen(table)}" for table in tables]

    def _chosen(self, table: str) -> str:
        if table == "events":
            return f"t.delivery = '{self._made}'"
        if table in {"keys", "deliveries"}:
            return f"t.id = '{self._made}'"
        return f"t.{self._place.key} = {self._row}"
