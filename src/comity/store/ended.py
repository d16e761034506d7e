"""Attempts that ended: what is told of them, and kept of their answers, whatever the database."""

from __future__ import annotations

from comity.errors import LeaseLost
from comity.store.records import Answer, Claim, Ended
from comity.store.row import Row
from comity.store.sums import Sums


def tell(sums: Sums, row: Row, ended: Ended) -> None:
    """Count an attempt that has ended, and let its event say how; the row is taken on already."""
    ok = row.state == "completed"
    sent_ago, answered_ago = ended.sent_ago, ended.answered_ago
    took = None if sent_ago is None or answered_ago is None else max(0, sent_ago - answered_ago)
    sums.attempt_ended(row.lane, ok=ok, refused=ended.refused, took=took)
    note = row.reason or row.error
    sums.event(row.state, lane=row.lane, delivery=row.id, attempt=row.attempts, status=ended.status, note=note)


def columns_of(delivery: int | str, answer: Answer) -> tuple[object, ...]:
    """Return the row of an answer, under the number or id of its delivery."""
    return (delivery, answer.status, answer.truncated, answer.size, answer.sha256, answer.headers, answer.body)


def lost(claim: Claim) -> LeaseLost:
    """Return what a worker is told whose claim is another's now."""
    return LeaseLost(
        f"the claim on {claim.id} is no longer this worker's: nothing was changed, and nothing may be sent"
    )
