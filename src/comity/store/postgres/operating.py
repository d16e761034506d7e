"""Operating: what people do to deliveries."""

from __future__ import annotations

from comity.store.postgres.change import Change
from comity.store.postgres.reading import deliveries, matching, page_end
from comity.store.postgres.scheduling import wait_no_more
from comity.store.postgres.transaction import Transaction
from comity.store.records import Delivery, Query, Replayed
from comity.store.row import END, WAITING
from comity.store.sums import Results


async def cancel(transaction: Transaction, calls: list[str]) -> Results[Delivery | None]:
    """Cancel each delivery."""
    change = Change(transaction)
    await change.of(calls)
    for row in change.all():
        change.cancel(row)
    await wait_no_more(transaction, change.all())
    return await _saved(transaction, change, calls)


async def hasten(transaction: Transaction, calls: list[str]) -> Results[Delivery | None]:
    """Make each delivery that waits due now."""
    change = Change(transaction)
    await change.find("id = ANY($1::uuid[]) AND phase = $2 ORDER BY id FOR UPDATE", calls, WAITING)
    for row in change.all():
        row.hasten(transaction.now, transaction.ageing)
    await wait_no_more(transaction, change.all())
    return await _saved(transaction, change, calls)


async def replay(transaction: Transaction, calls: list[str]) -> Results[Delivery | None]:
    """Deliver each again that came to an end."""
    change = Change(transaction)
    await change.find("id = ANY($1::uuid[]) AND phase = $2 ORDER BY id FOR UPDATE", calls, END)
    await _again(transaction, change)
    return await _saved(transaction, change, calls)


async def replay_all(transaction: Transaction, calls: list[tuple[Query, str | None, int]]) -> Results[Replayed]:
    """Replay up to so many deliveries of each query that came to an end."""
    results: Results[Replayed] = []
    for query, cursor, most in calls:
        change = Change(transaction)
        found = await matching(transaction.db, query, cursor, most, ended=True)
        await change.find("id = ANY($1::uuid[]) AND phase = $2 ORDER BY id FOR UPDATE", found, END)
        await _again(transaction, change)
        count = len(await change.save())
        results.append(Replayed(count=count, cursor=page_end(found, most)))
    return results


async def _again(transaction: Transaction, change: Change) -> None:
    rows = change.all()
    for row in rows:
        change.replay(row)
    await transaction.db.execute("DELETE FROM answers WHERE id = ANY($1::uuid[])", [row.n for row in rows])
    lanes = await transaction.lanes_of({row.lane for row in rows})
    if in_line := [row.n for row in rows if lanes[row.lane].ordered]:
        await transaction.db.execute("UPDATE deliveries SET in_line = true WHERE id = ANY($1::uuid[])", in_line)


async def _saved(transaction: Transaction, change: Change, calls: list[str]) -> Results[Delivery | None]:
    await change.save()
    found = await deliveries(transaction.db, calls)
    return [found.get(number) for number in calls]
