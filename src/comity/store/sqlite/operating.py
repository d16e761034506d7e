"""Operating: what people do to deliveries."""

from __future__ import annotations

from comity.store.records import Delivery, Query, Replayed
from comity.store.row import END, WAITING, Row
from comity.store.sqlite.change import Change
from comity.store.sqlite.reading import delivery, matching, page_end
from comity.store.sqlite.scheduling import waits_no_more
from comity.store.sqlite.transaction import Transaction
from comity.store.sums import Results


def cancel(transaction: Transaction, calls: list[str]) -> Results[Delivery | None]:
    """Cancel each delivery."""
    change = Change(transaction)
    for number in calls:
        for row in change.find("id = ?", number):
            waits_no_more(transaction, row)
            change.cancel(row)
    change.save()
    return [delivery(transaction.db, number) for number in calls]


def hasten(transaction: Transaction, calls: list[str]) -> Results[Delivery | None]:
    """Make each delivery that waits due now."""
    change = Change(transaction)
    for number in calls:
        for row in change.find("id = ? AND phase = ?", number, WAITING):
            waits_no_more(transaction, row)
            row.hasten(transaction.now, transaction.ageing)
    change.save()
    return [delivery(transaction.db, number) for number in calls]


def replay(transaction: Transaction, calls: list[str]) -> Results[Delivery | None]:
    """Deliver each again that came to an end."""
    change = Change(transaction)
    for number in calls:
        change.find("id = ? AND phase = ?", number, END)
    for row in change.all():  # each once, however many calls name it
        _again(transaction, change, row)
    change.save()
    return [delivery(transaction.db, number) for number in calls]


def replay_all(transaction: Transaction, calls: list[tuple[Query, str | None, int]]) -> Results[Replayed]:
    """Replay up to so many deliveries of each query that came to an end."""
    results: Results[Replayed] = []
    for query, cursor, most in calls:
        change = Change(transaction)
        found = matching(transaction.db, query, cursor, most, ended=True)
        for n, _ in found:
            for row in change.find("n = ? AND phase = ?", n, END):
                _again(transaction, change, row)
        count = len(change.save())
        results.append(Replayed(count=count, cursor=page_end(found, most)))
    return results


def _again(transaction: Transaction, change: Change, row: Row) -> None:
    change.replay(row)
    transaction.db.execute("DELETE FROM answers WHERE n = ?", (row.n,))
    if transaction.lane_of(row.lane).ordered:
        transaction.db.execute("UPDATE deliveries SET in_line = 1 WHERE n = ?", (row.n,))
