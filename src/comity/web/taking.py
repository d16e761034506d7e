"""Taking in: one submission, or a stream of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from comity.errors import OptionsError, StoreError
from comity.policy.units import whole_ms
from comity.service import submit
from comity.service.poll_hint import headers, next_poll
from comity.service.schedule import times
from comity.service.submit import Submission
from comity.store.records import NewDelivery, Submitted
from comity.store.schedules import NewSchedule
from comity.web.operation import Operation, Parameter, content, reply, too_late, too_long
from comity.web.problem import Problem, Refusal, refusal
from comity.web.shared import Shared, shared_of
from comity.web.streams import Stream
from comity.web.views import Accepted

NDJSON = "application/x-ndjson"

New = NewDelivery | NewSchedule

_MOST_AT_ONCE = 500


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a line of a batch: `accepted`, or `error` and nothing stored. `line` counts from 1."""

    line: int
    accepted: Accepted | None = None
    error: Problem | None = None


async def take(request: Request) -> Response:
    """Store one submission."""
    service = shared_of(request)
    key = submit.idempotency_key(request.headers.get("idempotency-key"))
    given = submit.read(await content(request))
    try:
        new = service.to_deliver(given, key)
        (made,) = await service.submit([new])
    except submit.Refused as error:
        new, made = await service.known(error)
    told, wait = _accepted(service, made, new)
    extra = {"Idempotency-Replayed": "true"} if made.outcome == "replayed" else {}
    return reply(told, 201, {"Location": f"/requests/{made.id}", **headers(wait), **extra})


async def take_many(request: Request) -> Response:
    """Store a submission from each line."""
    if request.headers.get("content-type", NDJSON).partition(";")[0].strip().lower() not in {
        NDJSON,
        "application/jsonl",
    }:
        raise Refusal(415, f"the body has to be {NDJSON}", field="Content-Type")
    service = shared_of(request)
    answers = _answers(service, _coming(request.stream(), service.patience))
    # The first before the answer begins: a store that is down answers 503 as long as nothing was stored.
    try:
        first = await anext(answers, b"")
    except TimeoutError:
        raise too_late() from None
    return Stream(_joined(first, answers), NDJSON, patience=service.patience)


OPERATIONS = (
    Operation(
        method="POST",
        path="/requests",
        alias="/request",
        handler=take,
        text="Store a request, to be delivered, or a schedule with its first run. The answer means that it is on the disk.",
        scope="submit",
        takes=Submission,
        answers={201: Accepted},
        problems=(400, 408, 413, 415, 429),
        parameters=(
            Parameter(
                name="Idempotency-Key",
                where="header",
                text="Quoted or bare; the same submission under the same key is stored once.",
            ),
        ),
    ),
    Operation(
        method="POST",
        path="/requests/batch",
        handler=take_many,
        text="Store a request from each line; the answer has a line for each, in order, and begins before the last was "
        "read: read it while writing.",
        scope="submit",
        takes=NDJSON,
        answers={200: NDJSON},
        problems=(408, 415),
    ),
)


def _accepted(service: Shared, made: Submitted, new: New) -> tuple[Accepted, int]:
    """Return the answer to a submission, the same whenever it is asked for, and its poll hint (ns)."""
    if made.outcome == "conflict":
        told = "this key stood for another submission; a new one needs a new key"
        if service.vault.holds(new.run if isinstance(new, NewSchedule) else new):
            told += ". Its headers hold secrets, which cannot be compared when the encryption key of that time is not configured now"
        raise Refusal(422, told, field="Idempotency-Key")
    if made.outcome == "full":
        told = "the queue is full: as many deliveries wait as max_queue allows, and more are not taken in"
        raise Refusal(429, told, headers={"Retry-After": "5"})
    due_in = _due_in(new, made.created_at)
    wait = next_poll(finished=False, elapsed=0, due_in=due_in) or 0
    schedule = UNSET if made.schedule is None else made.schedule
    return Accepted(id=made.id, status="pending", next_poll_ms=whole_ms(wait), schedule=schedule), wait


def _due_in(new: New, now: int) -> int:
    """Return in how many ns it is due first; by what was given alone, so that it is the same whenever it is asked for."""
    if isinstance(new, NewSchedule):
        return times(new.cron, new.zone).next(now) - now
    return max(new.delay, (new.run_at or 0) - now)


async def _coming(body: AsyncIterator[bytes], patience: float) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a body as they come.

    Raises:
        TimeoutError: none came for `patience` seconds; within an answer that ends the connection.
    """
    while True:
        async with asyncio.timeout(patience):
            part = await anext(body, None)
        if part is None:
            return
        yield part


async def _joined(first: bytes, others: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        yield first
        async for piece in others:
            yield piece
    finally:
        await others.aclose()


async def _answers(service: Shared, body: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the answers to as many lines as came at once; each piece is one transaction.

    Raises:
        StoreError: the store was down at the first of them.
    """
    number, stored = 0, False
    async for texts in _lines(body, service.max_body):
        lines: list[Line | New] = []
        numbers: list[int] = []
        for text in texts:
            number += 1
            if text is None or text.strip():
                numbers.append(number)
                lines.append(await _read(service, number, text))
        try:
            done = await _store(service, numbers, lines)
        except StoreError as error:
            if not stored:
                raise
            done = [_failed(number, error) for number in numbers]
        if done:
            stored = True
            yield b"".join(msgspec.json.encode(line) + b"\n" for line in done)


async def _read(service: Shared, number: int, text: bytes | None) -> Line | New:
    try:
        if text is None:
            raise too_long(service.max_body)
        return service.to_deliver(submit.read(text))
    except Refusal as error:
        return _failed(number, error)
    except submit.Refused as error:
        try:
            new, made = await service.known(error)
        except (submit.Refused, StoreError) as still:
            return _failed(number, still)
        return _line(service, number, new, made)


async def _store(service: Shared, numbers: Sequence[int], lines: Sequence[Line | New]) -> list[Line]:
    new = [each for each in lines if not isinstance(each, Line)]
    results = await _submitted(service, new) if new else []
    rest = iter(zip(new, results, strict=True))
    return [
        each if isinstance(each, Line) else _line(service, number, *next(rest))
        for number, each in zip(numbers, lines, strict=True)
    ]


async def _submitted(service: Shared, new: Sequence[New]) -> list[Submitted | Exception]:
    """Submit; what is at fault is found by halves, one after the other, as an ordered lane keeps the order of the lines."""
    try:
        return [*await service.submit(new)]
    except OptionsError as error:
        if len(new) == 1:
            return [error]
    done: list[Submitted | Exception] = []
    half = len(new) // 2
    for part in (new[:half], new[half:]):
        try:
            done += await _submitted(service, part)
        except StoreError as error:  # of another part something may be stored, so these lines alone say so
            done += [error] * len(part)
    return done


def _line(service: Shared, number: int, new: New, result: Submitted | Exception) -> Line:
    try:
        if isinstance(result, Exception):
            raise result
        return Line(line=number, accepted=_accepted(service, result, new)[0])
    except (Refusal, OptionsError, StoreError) as error:
        return _failed(number, error)


def _failed(number: int, error: Exception) -> Line:
    refused = refusal(error)
    assert refused is not None
    return Line(line=number, error=refused.problem)


async def _lines(body: AsyncIterator[bytes], most: int) -> AsyncGenerator[list[bytes | None], None]:
    """Yield the lines that came at once, up to some hundred; None stands for one that is too long, of which nothing is kept."""
    rest, skipping = b"", False
    async for part in body:
        *whole, rest = (rest + part).split(b"\n")
        lines: list[bytes | None] = [line if len(line) <= most else None for line in whole]
        if skipping and lines:
            lines[0], skipping = None, False
        if len(rest) > most:
            rest, skipping = b"", True
        for start in range(0, len(lines), _MOST_AT_ONCE):
            yield lines[start : start + _MOST_AT_ONCE]
    if skipping or rest:
        yield [None if skipping else rest]
