"""Views: what the API says of deliveries and lanes. The description of the API is made of these same classes.

Lengths are whole milliseconds, times ISO 8601 in UTC with milliseconds. URLs are shown without their secrets.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from comity import redact
from comity.policy.dates import date_time
from comity.policy.units import whole_ms
from comity.service.poll_hint import next_poll
from comity.service.submit import Method
from comity.service.terms import Terms, camel
from comity.store.records import ENDS, Answer, AttemptRow, Counts, Delivery, Event, Lane, Mode, State
from comity.store.schedules import Overlap, Schedule

_MS = 1_000_000

Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
Headers = Annotated[list[tuple[str, str]], Meta(description="Name and value of each line; secrets are masked.")]
PollMs = Annotated[int | None, Meta(description="When to ask again; null when nothing more will come.")]


class _View(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    pass


class Accepted(_View, frozen=True, kw_only=True):
    """A delivery was stored, and will be sent."""

    id: str
    status: State
    next_poll_ms: int
    schedule: Annotated[
        str | msgspec.UnsetType, Meta(description="With cron, the schedule's id; the delivery is its first run.")
    ] = msgspec.UNSET


class Attempt(_View, frozen=True, kw_only=True):
    """One send."""

    attempt_number: Annotated[int, Meta(ge=1)]
    status_code: int | None
    error: str | None
    waited_ms: Annotated[int | None, Meta(description="How long it took; null while it is under way.")]
    delay_before_ms: Annotated[int, Meta(description="The wait before it.")]
    made_at: Time
    sent: Literal["no", "maybe", "yes"]
    retry_after_ms: Annotated[int | None, Meta(description="The wait that the answer asked for.")]
    decision: Annotated[str, Meta(description="What followed; sending while it is under way, unknown after a crash.")]
    timings: Annotated[dict[str, Any], Meta(description="Seconds by phase.")]


class Outcome(_View, frozen=True, kw_only=True):
    """The captured answer."""

    status_code: int
    headers: Headers
    body: Annotated[str | None, Meta(description="As text, when it is UTF-8.")]
    body_base64: Annotated[str | None, Meta(description="When it is not.")]
    truncated: Annotated[bool, Meta(description="The body is only its beginning.")]
    size: Annotated[int, Meta(description="Bytes of the body; of one over 64 MiB that much was read.")]
    sha256: Annotated[str, Meta(description="Of those bytes.")]


class Summary(_View, frozen=True, kw_only=True):
    """A delivery, as lists have it."""

    id: str
    url: str
    method: Method
    status: State
    sending: Annotated[bool, Meta(description="An attempt is under way.")]
    cancelling: Annotated[bool, Meta(description="It is to be cancelled after the attempt under way.")]
    attempt_count: int
    max_retries: int
    backoff_ms: int
    policy: Annotated[str | None, Meta(description="The policy whose terms it has where none of its own were given.")]
    next_retry_at: Time | None
    last_error: str | None
    reason: Annotated[str | None, Meta(description="Why it failed.")]
    lane: str
    priority: int
    delivery: Mode
    idempotency_key: str | None
    schedule: Annotated[str | None, Meta(description="Whose run it is.")]
    callback_url: str | None
    created_at: Time
    due_at: Time
    deadline: Time | None
    ended_at: Time | None


class Status(Summary, frozen=True, kw_only=True):
    """A delivery with its attempts and, once it has completed, the answer."""

    result: Outcome | None
    attempts: list[Attempt]
    next_poll_ms: int | msgspec.UnsetType = msgspec.UNSET


class Enveloped(_View, frozen=True, kw_only=True):
    """The same as the value of data."""

    data: Status


class Result(_View, frozen=True, kw_only=True):
    """How a delivery ended."""

    id: str
    status: State
    last_error: str | None
    reason: str | None
    result: Annotated[Outcome | None, Meta(description="null when it ended without an answer.")]


class Unfinished(_View, frozen=True, kw_only=True):
    """There is no result yet."""

    id: str
    status: State
    next_poll_ms: int


class Attempts(_View, frozen=True, kw_only=True):
    """All attempts, in order."""

    attempts: list[Attempt]


class Page(_View, frozen=True, kw_only=True):
    """Deliveries, the newest first; cursor is that of the next page, null on the last."""

    requests: list[Summary]
    cursor: str | None


class Replays(_View, frozen=True, kw_only=True):
    """How many were replayed; with a cursor there may be more."""

    count: int
    cursor: str | None


class LaneCounts(_View, frozen=True, kw_only=True):
    """Deliveries by status; of those alive, how many could be sent now and how many a worker has."""

    pending: int
    retrying: int
    completed: int
    failed: int
    cancelled: int
    ready: int
    held: int


class LaneView(_View, frozen=True, kw_only=True):
    """A queue of deliveries to one origin."""

    key: str
    origin: str
    paused: bool
    pause_reason: Annotated[str | None, Meta(description="Why it was paused by itself.")]
    ordered: Annotated[bool, Meta(description="Its deliveries are sent one after the other, the oldest first.")]
    limits: dict[str, Any]
    origin_paused_until: Time | None
    origin_blocked_until: Time | None
    gap_ms: Annotated[float, Meta(description="The learned gap between two starts.")]
    counts: LaneCounts


class Lanes(_View, frozen=True, kw_only=True):
    """Lanes in order of their keys."""

    lanes: list[LaneView]


class ScheduleView(_View, frozen=True, kw_only=True):
    """What is delivered again and again."""

    id: str
    cron: str
    zone: str
    overlap: Overlap
    paused: bool
    next_at: Annotated[Time | None, Meta(description="When its next run is due; null while none waits.")]
    latest: Annotated[str, Meta(description="The id of its newest run: the one that waits, if there is one.")]
    url: str
    method: Method
    lane: str
    priority: int
    delivery: Mode
    max_retries: int
    backoff_ms: int
    policy: Annotated[str | None, Meta(description="The policy whose terms it has where none of its own were given.")]
    deadline_ms: Annotated[int | None, Meta(description="A run is not to be sent from so long after its time on.")]
    callback_url: str | None
    created_at: Time


class Schedules(_View, frozen=True, kw_only=True):
    """Schedules, the oldest first."""

    schedules: list[ScheduleView]


class EventView(_View, frozen=True, kw_only=True):
    """What happened."""

    seq: int
    at: Time
    kind: str
    lane: str | None
    origin: str | None
    delivery: str | None
    attempt: int | None
    status_code: int | None
    note: str | None


def hint(of: Delivery, now: int) -> int | None:
    """Return when to look at a delivery again, ns from now, or None."""
    due_in = 0 if of.sending else max(0, of.due_at - now)
    return next_poll(finished=of.state in ENDS, elapsed=max(0, now - of.enqueued_at), due_in=due_in)


def summary(of: Delivery) -> Summary:
    """Return a delivery as lists have it."""
    return Summary(**_summary(of))


def status(of: Delivery, attempts: Sequence[AttemptRow], answer: Answer | None, wait: int | None) -> Status:
    """Return a delivery with all that there is."""
    return Status(
        **_summary(of),
        result=outcome(answer) if of.state == "completed" else None,
        # One that began since the delivery was read is not told before it is counted.
        attempts=[attempt(each) for each in attempts[: of.attempts]],
        next_poll_ms=msgspec.UNSET if wait is None else whole_ms(wait),
    )


def result(of: Delivery, answer: Answer | None) -> Result:
    """Return how a delivery ended."""
    return Result(id=of.id, status=of.state, last_error=of.last_error, reason=of.reason, result=outcome(answer))


def attempt(row: AttemptRow) -> Attempt:
    """Return one send."""
    return Attempt(
        attempt_number=row.number,
        status_code=row.status,
        error=row.error,
        waited_ms=None if row.ended_at is None else max(0, row.ended_at - row.started_at) // _MS,
        delay_before_ms=max(0, row.waited) // _MS,
        made_at=date_time(row.started_at),
        sent=row.sent,
        retry_after_ms=None if row.retry_after is None else whole_ms(row.retry_after),
        decision=row.decision,
        timings=msgspec.json.decode(row.timings),
    )


def outcome(answer: Answer | None) -> Outcome | None:
    """Return a captured answer."""
    if answer is None:
        return None
    body, encoded = _text(answer.body, truncated=answer.truncated)
    return Outcome(
        status_code=answer.status,
        headers=redact.headers(_pairs(answer.headers)),
        body=body,
        body_base64=encoded,
        truncated=answer.truncated,
        size=answer.size,
        sha256=answer.sha256.hex(),
    )


def lane(of: Lane, now: int) -> LaneView:
    """Return a lane."""
    return LaneView(
        key=of.key,
        origin=of.origin.name,
        paused=of.paused,
        pause_reason=of.pause_reason,
        ordered=of.ordered,
        limits=msgspec.json.decode(of.limits or b"{}"),
        origin_paused_until=_ahead(of.origin.paused_until, now),
        origin_blocked_until=_ahead(of.origin.blocked_until, now),
        gap_ms=of.origin.gap / _MS,
        counts=counts(of.counts),
    )


def schedule(of: Schedule, now: int) -> ScheduleView:
    """Return a schedule."""
    terms, run = Terms.read(of.run.options), of.run
    return ScheduleView(
        id=of.id,
        cron=of.cron,
        zone=of.zone,
        overlap=of.overlap,
        paused=of.paused,
        next_at=None if of.paused else _ahead(of.next_at, now),
        latest=of.latest,
        url=redact.url(run.url),
        method=cast("Method", run.method),
        lane=run.lane_key,
        priority=run.priority,
        delivery=run.mode,
        max_retries=terms.max_retries,
        backoff_ms=terms.backoff_ms,
        policy=terms.policy,
        deadline_ms=None if of.within is None else of.within // _MS,
        callback_url=_masked(terms.callback_url),
        created_at=date_time(of.created_at),
    )


def counts(of: Counts) -> LaneCounts:
    """Return counts."""
    return LaneCounts(
        pending=max(0, of.pending),
        retrying=max(0, of.retrying),
        completed=max(0, of.completed),
        failed=max(0, of.failed),
        cancelled=max(0, of.cancelled),
        ready=max(0, of.ready),
        held=max(0, of.held),
    )


def event(of: Event) -> EventView:
    """Return an event."""
    return EventView(
        seq=of.seq,
        at=date_time(of.at),
        kind=of.kind,
        lane=of.lane,
        origin=of.origin,
        delivery=of.delivery,
        attempt=of.attempt,
        status_code=of.status,
        note=of.note,
    )


def _summary(of: Delivery) -> dict[str, Any]:
    terms = Terms.read(of.options)
    return {
        "id": of.id,
        "url": redact.url(of.url),
        "method": of.method,
        "status": of.state,
        "sending": of.sending,
        "cancelling": of.cancelling,
        "attempt_count": of.attempts,
        "max_retries": terms.max_retries,
        "backoff_ms": terms.backoff_ms,
        "policy": terms.policy,
        "next_retry_at": date_time(of.due_at) if of.state == "retrying" and not of.sending else None,
        "last_error": of.last_error,
        "reason": of.reason,
        "lane": of.lane,
        "priority": of.priority,
        "delivery": of.mode,
        "idempotency_key": of.idempotency_key,
        "schedule": of.schedule,
        "callback_url": _masked(terms.callback_url),
        "created_at": date_time(of.created_at),
        "due_at": date_time(of.due_at),
        "deadline": None if of.deadline is None else date_time(of.deadline),
        "ended_at": None if of.ended_at is None else date_time(of.ended_at),
    }


def _masked(url: str | None) -> str | None:
    return None if url is None else redact.url(url)


def _ahead(moment: int, now: int) -> str | None:
    return date_time(moment) if moment > now else None


def _text(body: bytes, *, truncated: bool) -> tuple[str | None, str | None]:
    try:
        return body.decode(), None
    except UnicodeDecodeError as error:
        # A cut may go through a character; what is before it is text all the same.
        if truncated and error.end == len(body) and error.reason == "unexpected end of data":
            return body[: error.start].decode(), None
        return None, base64.b64encode(body).decode()


def _pairs(headers: bytes) -> list[tuple[str, str]]:
    told = msgspec.json.decode(headers)
    return list(told.items()) if isinstance(told, dict) else [(name, value) for name, value in told]
