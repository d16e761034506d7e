"""Reading: rows as records. Each function takes a connection, so the writer uses them inside its transactions too."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from comity.errors import OptionsError
from comity.store import ids
from comity.store.reading import filled, lane_of, share_of, states_of
from comity.store.records import (
    LATEST,
    Answer,
    AttemptRow,
    Counts,
    Delivery,
    Event,
    EventKind,
    Lane,
    Minute,
    Origin,
    Page,
    Payload,
    Query,
    Share,
    Start,
)
from comity.store.sums import COUNTS

_CURSOR = re.compile(r"[0-9a-f]{1,15}")

_DELIVERY = """
SELECT d.id, d.state, d.phase = 4, d.cancelling, l.key, d.method, d.url, p.options, d.priority, d.mode, d.idempotency_key,
    d.created_at, d.enqueued_at, d.due_at, d.deadline, d.ended_at, d.attempts, d.max_attempts, d.crashes, d.status, d.error,
    d.reason, d.version, d.schedule
FROM deliveries d JOIN lanes l ON l.id = d.lane JOIN payloads p ON p.n = d.n
"""
_LANE = f"""
SELECT l.key, l.paused, l.pause_reason, l.ordered, l.limits, o.name, o.lease, o.paused_until, o.blocked_until, o.gap,
    {", ".join(f"l.{name}" for name in COUNTS)}
FROM lanes l JOIN origins o ON o.id = l.origin
"""  # noqa: S608 - names of ours
_ORIGINS = "SELECT name, lease, paused_until, blocked_until, gap FROM origins ORDER BY name"
_EVENTS = """
SELECT e.seq, e.at, e.kind, l.key, coalesce(o.name, p.name), e.delivery, e.attempt, e.status, e.note
FROM events e LEFT JOIN lanes l ON l.id = e.lane LEFT JOIN origins o ON o.id = e.origin
LEFT JOIN origins p ON p.id = l.origin WHERE e.seq > ? AND {} ORDER BY e.seq LIMIT ?
"""
_ATTEMPTS = """
SELECT number, started_at, waited, ended_at, sent, sent_at, answered_at, status, error, retry_after, timings, decision
FROM attempts WHERE n = (SELECT n FROM deliveries WHERE id = ?) ORDER BY number
"""
_STARTS = """
SELECT coalesce(a.sent_at, a.ended_at) AS began, coalesce(a.answered_at, a.ended_at) AS answered, a.cost, 0
FROM attempts a JOIN origins o ON o.id = a.origin WHERE o.name = ?2 AND a.ended_at > ?3 AND a.sent <> 'no' AND answered > ?3
UNION ALL
SELECT ?1, ?1, a.cost, 1 FROM deliveries d INDEXED BY deliveries_held JOIN attempts a ON a.n = d.n AND a.number = d.attempts
JOIN origins o ON o.id = a.origin WHERE d.lease IS NOT NULL AND d.phase = 4 AND o.name = ?2
ORDER BY began
"""
_SHARE = """
SELECT count(*) FILTER (WHERE lease = ?), count(*), (SELECT count(*) FROM leases) FROM (
    SELECT lease FROM origins INDEXED BY origins_owned WHERE lease IS NOT NULL AND live > 0
    UNION ALL SELECT lease FROM origins INDEXED BY origins_free WHERE lease IS NULL AND live > 0
)
"""
_FROM = "(SELECT n FROM deliveries WHERE id >= ? ORDER BY id LIMIT 1)"


def delivery(db: sqlite3.Connection, number: str) -> Delivery | None:
    """Return a delivery, or None."""
    row = db.execute(f"{_DELIVERY} WHERE d.id = ?", (number,)).fetchone()
    return None if row is None else _delivery(row)


def payload(db: sqlite3.Connection, number: str) -> Payload | None:
    """Return what a delivery sends, or None."""
    row = _of(db, "SELECT headers, body FROM payloads", number)
    return None if row is None else Payload(headers=row[0], body=row[1])


def answer(db: sqlite3.Connection, number: str) -> Answer | None:
    """Return what a delivery ended with, or None."""
    row = _of(db, "SELECT status, headers, body, truncated, size, sha256 FROM answers", number)
    if row is None:
        return None
    status, headers, body, truncated, size, digest = row
    return Answer(status=status, headers=headers, body=body, truncated=bool(truncated), size=size, sha256=digest)


def attempts(db: sqlite3.Connection, number: str) -> list[AttemptRow]:
    """Return a delivery's attempts."""
    return [filled(AttemptRow, row) for row in db.execute(_ATTEMPTS, (number,))]


def page(db: sqlite3.Connection, query: Query, cursor: str | None, most: int) -> Page:
    """Return a page of deliveries."""
    found = matching(db, query, cursor, most)
    rows = [db.execute(f"{_DELIVERY} WHERE d.n = ?", (n,)).fetchone() for n, _ in found]
    return Page(deliveries=[_delivery(row) for row in rows], cursor=page_end(found, most))


def matching(
    db: sqlite3.Connection, query: Query, cursor: str | None, most: int, *, ended: bool = False
) -> list[tuple[int, str]]:
    """Return row numbers and ids of up to `most` deliveries, the newest first, from below the cursor; `ended`: of ends only."""
    conditions: list[tuple[str, object]] = []
    if query.lane is not None:
        conditions.append(("d.lane = (SELECT id FROM lanes WHERE key = ?)", query.lane))
    # Ids and row numbers rise together, and by number a page is found without a search.
    if query.since is not None:
        conditions.append((f"d.n >= coalesce({_FROM}, {LATEST})", ids.floor(query.since)))
    if query.until is not None:
        conditions.append((f"d.n < coalesce({_FROM}, {LATEST})", ids.floor(query.until)))
    if query.reason is not None:
        conditions.append(("d.reason = ?", query.reason))
    if query.schedule is not None:
        conditions.append(("d.schedule = ?", query.schedule))
    if cursor is not None:
        conditions.append(("d.n < ?", _place(cursor)))
    parts: list[str] = []
    values: list[object] = []
    for each in states_of(query, ended=ended):
        chosen = conditions if each is None else [("d.state = ?", each), *conditions]
        where = " AND ".join([*(text for text, _ in chosen), "d.phase = 0" if ended else "1"])
        parts.append(f"SELECT d.n, d.id FROM deliveries d {_index(each, query)} WHERE {where}")  # noqa: S608 - values apart
        values.extend(value for _, value in chosen)
    # Each part comes in order, and is read no further than the page needs.
    return db.execute(f"{' UNION ALL '.join(parts)} ORDER BY 1 DESC LIMIT ?", (*values, most)).fetchall()


def page_end(found: Sequence[tuple[int, str]], most: int) -> str | None:
    """Return the cursor behind what was found, None when there can be no more."""
    return f"{found[-1][0]:x}" if found and len(found) >= most else None


def lane(db: sqlite3.Connection, key: str) -> Lane | None:
    """Return a lane, or None."""
    row = db.execute(f"{_LANE} WHERE l.key = ?", (key,)).fetchone()
    return None if row is None else lane_of(row)


def lanes(db: sqlite3.Connection, after: str, most: int) -> list[Lane]:
    """Return lanes by key."""
    return [lane_of(row) for row in db.execute(f"{_LANE} WHERE l.key > ? ORDER BY l.key LIMIT ?", (after, most))]


def origins(db: sqlite3.Connection) -> list[Origin]:
    """Return all origins."""
    return [filled(Origin, row) for row in db.execute(_ORIGINS)]


def counts(db: sqlite3.Connection) -> Counts:
    """Return the sum of all lanes' counts."""
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in COUNTS)
    return filled(Counts, db.execute(f"SELECT {sums} FROM lanes").fetchone())  # noqa: S608 - names of ours


def minutes(db: sqlite3.Connection, since: int, until: int, key: str | None) -> list[Minute]:
    """Return what was rolled up in a time."""
    text = """
        SELECT l.key, m.began_at, m.attempts, m.ok, m.refused, m.failed, m.answered, m.time_sum, m.time_min, m.time_max
        FROM minutes m JOIN lanes l ON l.id = m.lane
        WHERE m.began_at >= ?1 AND m.began_at < ?2 AND (?3 IS NULL OR l.key = ?3) ORDER BY m.began_at, l.key
    """
    return [filled(Minute, row) for row in db.execute(text, (since, until, key))]


def events(db: sqlite3.Connection, after: int, most: int, kinds: Sequence[EventKind] | None) -> list[Event]:
    """Return events in order, all or those of some kinds."""
    # What is passed over costs a look at its row, and each reader does that once: an index would cost every event more.
    wanted = "1" if kinds is None else f"e.kind IN ({', '.join('?' * len(kinds))})"
    return [filled(Event, row) for row in db.execute(_EVENTS.format(wanted), (after, *(kinds or ()), most))]


def starts(db: sqlite3.Connection, origin: str, since: int, now: int) -> list[Start]:
    """Return the sends to an origin that may still count."""
    found = db.execute(_STARTS, (now, origin, since))
    return [filled(Start, (*times, bool(under_way))) for *times, under_way in found]


def _index(state: str | None, query: Query) -> str:
    """Return where a page stands in one piece: left to choose, the planner passes over what others have by millions."""
    if query.schedule is not None:
        return "INDEXED BY deliveries_schedule"
    if state is None:
        return "NOT INDEXED"
    if query.lane is not None:
        return "INDEXED BY deliveries_lane"
    return "INDEXED BY deliveries_state" if query.reason is None else "INDEXED BY deliveries_reason"


def share(db: sqlite3.Connection, lease: int) -> Share:
    """Return what a lease owns of the origins that have something to do, and what would be fair."""
    return share_of(db.execute(_SHARE, (lease,)).fetchone())


def _of(db: sqlite3.Connection, select: str, number: str) -> tuple[Any, ...] | None:
    text = f"{select} WHERE n = (SELECT n FROM deliveries WHERE id = ?)"  # noqa: S608 - a text of ours
    found: tuple[Any, ...] | None = db.execute(text, (number,)).fetchone()
    return found


def _delivery(row: Sequence[Any]) -> Delivery:
    number, state, sending, cancelling, *others = row
    return filled(Delivery, (number, state, bool(sending), bool(cancelling), *others))


def _place(cursor: str) -> int:
    # No longer than a row's number can be: one that is too large for SQLite is no cursor either.
    if not _CURSOR.fullmatch(cursor):
        raise OptionsError("cursor", cursor, "the cursor of an earlier page")
    return int(cursor, 16)
