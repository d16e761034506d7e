"""Reading: rows as records. Each function is one statement, so it sees one state; the writer uses some inside its transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from comity.errors import OptionsError
from comity.store import ids
from comity.store.reading import filled, lane_of, share_of, states_of
from comity.store.records import (
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

_DELIVERY = """
SELECT d.id::text, d.state, d.began_at IS NOT NULL, d.cancelling = 1, l.key, d.method, d.url, p.options, d.priority, d.mode,
    d.idempotency_key, d.created_at, d.enqueued_at, d.due_at, d.deadline, d.ended_at, d.attempts, d.max_attempts, d.crashes,
    d.status, d.error, d.reason, d.version, d.schedule::text
FROM deliveries d JOIN lanes l ON l.id = d.lane JOIN payloads p ON p.id = d.id
"""
_LANE = f"""
SELECT l.key, l.paused, l.pause_reason, l.ordered, l.limits, o.name, o.lease, o.paused_until, o.blocked_until, o.gap,
    {", ".join(f"l.{name}" for name in COUNTS)}
FROM lanes l JOIN origins o ON o.id = l.origin
"""  # noqa: S608 - names of ours
_ORIGINS = 'SELECT name, lease, paused_until, blocked_until, gap FROM origins ORDER BY name COLLATE "C"'
_EVENTS = """
SELECT e.seq, e.at, e.kind, l.key, coalesce(o.name, p.name), e.delivery::text, e.attempt, e.status, e.note
FROM events e LEFT JOIN lanes l ON l.id = e.lane LEFT JOIN origins o ON o.id = e.origin
LEFT JOIN origins p ON p.id = l.origin WHERE e.seq > $1 AND ($3::text[] IS NULL OR e.kind = ANY($3)) ORDER BY e.seq LIMIT $2
"""
_ATTEMPTS = """
SELECT number, started_at, waited, ended_at, sent, sent_at, answered_at, status, error, retry_after, timings, decision
FROM attempts WHERE id = $1
UNION ALL
SELECT attempts, began_at, began_at - idle_since, NULL, 'maybe', NULL, NULL, NULL, NULL, NULL, '{}', 'sending'
FROM deliveries WHERE id = $1 AND began_at IS NOT NULL
ORDER BY 1
"""
_SHARE = """
SELECT count(*) FILTER (WHERE lease = $1), count(*), (SELECT count(*) FROM leases) FROM (
    SELECT lease FROM origins WHERE lease IS NOT NULL AND wanted
    UNION ALL SELECT lease FROM origins WHERE lease IS NULL AND wanted
) o
"""
_STARTS = """
SELECT coalesce(a.sent_at, a.ended_at) AS began, coalesce(a.answered_at, a.ended_at), a.cost, false
FROM origins o JOIN attempts a ON a.origin = o.id
WHERE o.name = $2 AND a.ended_at > $3 AND a.sent <> 'no' AND coalesce(a.answered_at, a.ended_at) > $3
UNION ALL
SELECT $1::bigint, $1::bigint, d.cost, true FROM deliveries d JOIN lanes l ON l.id = d.lane JOIN origins o ON o.id = l.origin
WHERE d.lease IS NOT NULL AND d.began_at IS NOT NULL AND o.name = $2
ORDER BY 1
"""
_MINUTES = """
SELECT l.key, m.began_at, m.attempts, m.ok, m.refused, m.failed, m.answered, m.time_sum, m.time_min, m.time_max
FROM minutes m JOIN lanes l ON l.id = m.lane
WHERE m.began_at >= $1 AND m.began_at < $2 AND ($3::text IS NULL OR l.key = $3) ORDER BY m.began_at, l.key COLLATE "C"
"""
_COUNTS = f"SELECT {', '.join(f'coalesce(sum({name}), 0)::bigint' for name in COUNTS)} FROM lanes"  # noqa: S608 - names of ours


def is_id(text: str) -> bool:
    """Return whether a text can be a delivery's id at all."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


async def deliveries(db: Any, numbers: Sequence[str]) -> dict[str, Delivery]:
    """Return those deliveries that there are, by id."""
    found = await db.fetch(f"{_DELIVERY} WHERE d.id = ANY($1::uuid[])", numbers)
    return {row[0]: filled(Delivery, row) for row in found}


async def payload(db: Any, number: str) -> Payload | None:
    """Return what a delivery sends, or None."""
    row = await db.fetchrow("SELECT headers, body FROM payloads WHERE id = $1", number)
    return None if row is None else filled(Payload, row)


async def answer(db: Any, number: str) -> Answer | None:
    """Return what a delivery ended with, or None."""
    text = "SELECT status, headers, body, truncated, size, sha256 FROM answers WHERE id = $1"
    row = await db.fetchrow(text, number)
    return None if row is None else filled(Answer, row)


async def attempts(db: Any, number: str) -> list[AttemptRow]:
    """Return a delivery's attempts."""
    return [filled(AttemptRow, row) for row in await db.fetch(_ATTEMPTS, number)]


async def page(db: Any, query: Query, cursor: str | None, most: int) -> Page:
    """Return a page of deliveries."""
    found, values = _matching(query, cursor, most)
    text = f"{_DELIVERY} WHERE d.id = ANY(ARRAY({found})) ORDER BY d.id DESC"
    rows = [filled(Delivery, row) for row in await db.fetch(text, *values)]
    return Page(deliveries=rows, cursor=page_end([each.id for each in rows], most))


async def matching(db: Any, query: Query, cursor: str | None, most: int, *, ended: bool = False) -> list[str]:
    """Return ids of up to `most` deliveries, the newest first, from below the cursor; `ended`: of ends only."""
    found, values = _matching(query, cursor, most, ended=ended)
    text = f"SELECT page.id::text FROM ({found}) page ORDER BY page.id DESC"  # noqa: S608 - values apart
    return [row[0] for row in await db.fetch(text, *values)]


def page_end(found: Sequence[str], most: int) -> str | None:
    """Return the cursor behind what was found, None when there can be no more."""
    return found[-1] if found and len(found) >= most else None


async def lane(db: Any, key: str) -> Lane | None:
    """Return a lane, or None."""
    row = await db.fetchrow(f"{_LANE} WHERE l.key = $1", key)
    return None if row is None else lane_of(row)


async def lanes(db: Any, after: str, most: int) -> list[Lane]:
    """Return lanes by key."""
    text = f'{_LANE} WHERE l.key COLLATE "C" > $1 ORDER BY l.key COLLATE "C" LIMIT $2'
    return [lane_of(row) for row in await db.fetch(text, after, most)]


async def origins(db: Any) -> list[Origin]:
    """Return all origins."""
    return [filled(Origin, row) for row in await db.fetch(_ORIGINS)]


async def counts(db: Any) -> Counts:
    """Return the sum of all lanes' counts."""
    return filled(Counts, await db.fetchrow(_COUNTS))


async def minutes(db: Any, since: int, until: int, key: str | None) -> list[Minute]:
    """Return what was rolled up in a time."""
    return [filled(Minute, row) for row in await db.fetch(_MINUTES, since, until, key)]


async def events(db: Any, after: int, most: int, kinds: Sequence[EventKind] | None) -> list[Event]:
    """Return events in order, all or those of some kinds."""
    return [filled(Event, row) for row in await db.fetch(_EVENTS, after, most, kinds)]


async def last_event(db: Any) -> int:
    """Return the number of the newest event."""
    last: int = await db.fetchval("SELECT seq FROM store")
    return last


async def share(db: Any, lease: int) -> Share:
    """Return what a lease owns of the origins that have something to do, and what would be fair."""
    return share_of(await db.fetchrow(_SHARE, lease))


async def starts(db: Any, origin: str, since: int, now: int) -> list[Start]:
    """Return the sends to an origin that may still count."""
    return [filled(Start, row) for row in await db.fetch(_STARTS, now, origin, since)]


def _matching(query: Query, cursor: str | None, most: int, *, ended: bool = False) -> tuple[str, list[object]]:
    """Return text and values of a query for ids, from below a cursor."""
    conditions: list[str] = ["d.phase = 0" if ended else "true"]
    values: list[object] = [most]

    def add(text: str, value: object) -> None:
        values.append(value)
        conditions.append(text.format(f"${len(values)}"))

    if query.lane is not None:
        add("d.lane = (SELECT id FROM lanes WHERE key = {})", query.lane)
    if query.since is not None:
        add("d.id >= {}", ids.floor(query.since))
    if query.until is not None:
        add("d.id < {}", ids.floor(query.until))
    if query.reason is not None:
        add("d.reason = {}", query.reason)
    if query.schedule is not None:
        add("d.schedule = {}", query.schedule if is_id(query.schedule) else None)
    if cursor is not None:
        if not is_id(cursor):
            raise OptionsError("cursor", cursor, "the cursor of an earlier page")
        add("d.id < {}", cursor)
    # The state's word stands in the text: with a value the planner would not know which of them are many.
    states = states_of(query, ended=ended)
    wheres = [" AND ".join([*conditions, *([] if each is None else [f"d.state = '{each}'"])]) for each in states]
    parts = [f"(SELECT d.id FROM deliveries d WHERE {where} ORDER BY d.id DESC LIMIT $1)" for where in wheres]  # noqa: S608 - values apart
    return f"SELECT id FROM ({' UNION ALL '.join(parts)}) found ORDER BY id DESC LIMIT $1", values  # noqa: S608 - values apart
