"""Reading: how deliveries stand, and what came of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from comity.policy.dates import rfc3339
from comity.policy.units import parse_integer, whole_ms
from comity.service.poll_hint import headers
from comity.store.records import ENDS, STATES, Delivery, Query
from comity.web import views
from comity.web.operation import Operation, Parameter, reply
from comity.web.problem import Refusal
from comity.web.shared import Shared, shared_of
from comity.web.views import Attempts, Enveloped, Page, Result, Status, Unfinished

LONGEST_WAIT = 60
MOST = 500

_ID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_WAIT = re.compile(r'(?:^|[,;])\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:$|[,;])', re.IGNORECASE)

PREFER = Parameter(
    name="Prefer",
    where="header",
    text=f"wait=N answers when it has ended, after N (up to {LONGEST_WAIT}) s at the latest.",
)
FILTERS = (
    Parameter(name="status", text="Only those with this status.", schema={"type": "string", "enum": list(STATES)}),
    Parameter(name="lane", text="Only those of this lane."),
    Parameter(
        name="since", text="Only those created at this time or later.", schema={"type": "string", "format": "date-time"}
    ),
    Parameter(
        name="until", text="Only those created before this time.", schema={"type": "string", "format": "date-time"}
    ),
    Parameter(name="reason", text="Only those that failed for this reason."),
    Parameter(name="schedule", text="Only the runs of this schedule."),
)
CURSOR = Parameter(name="cursor", text="Go on behind an earlier page.")


def limited(default: int) -> Parameter:
    """Return the parameter that says how many are wanted."""
    schema = {"type": "integer", "minimum": 1, "maximum": MOST, "default": default}
    return Parameter(name="limit", text="The most that are wanted.", schema=schema)


LIMIT = limited(100)


async def show(request: Request) -> Response:
    """Answer how a delivery stands."""
    service = shared_of(request)
    of, extra = await _awaited(request, await found(request))
    enveloped = _enveloped(request)
    tag = f'W/"{of.version}{"d" if enveloped else ""}"'
    wait = views.hint(of, await service.store.now())
    extra |= {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Prefer", **headers(wait)}
    if not {tag, "*"}.isdisjoint(each.strip() for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=extra)
    answer = await service.store.answer(of.id) if of.state == "completed" else None
    told = views.status(of, await service.store.attempts(of.id), answer, wait)
    return reply(Enveloped(data=told) if enveloped else told, headers=extra)


async def attempts(request: Request) -> Response:
    """Answer every attempt."""
    of = await found(request)
    rows = await shared_of(request).store.attempts(of.id)
    return reply(Attempts(attempts=[views.attempt(row) for row in rows]))


async def result(request: Request) -> Response:
    """Answer what came of a delivery."""
    service = shared_of(request)
    of, extra = await _awaited(request, await found(request))
    wait = views.hint(of, await service.store.now())
    if wait is not None:
        told = Unfinished(id=of.id, status=of.state, next_poll_ms=whole_ms(wait))
        return reply(told, 202, {**extra, **headers(wait)})
    return reply(views.result(of, await service.store.answer(of.id)), headers=extra)


async def listed(request: Request) -> Response:
    """Answer a page of deliveries."""
    given = request.query_params
    page = await shared_of(request).store.deliveries(query_of(given), given.get("cursor"), limit_of(given))
    extra = {}
    if page.cursor is not None:
        following = urlencode(dict(given) | {"cursor": page.cursor})
        extra["Link"] = f'</requests?{following}>; rel="next"'
    return reply(Page(requests=[views.summary(of) for of in page.deliveries], cursor=page.cursor), headers=extra)


OPERATIONS = (
    Operation(
        method="GET",
        path="/requests",
        handler=listed,
        text="List deliveries, the newest first.",
        scope="read",
        answers={200: Page},
        parameters=(*FILTERS, CURSOR, LIMIT),
    ),
    Operation(
        method="GET",
        path="/requests/{id}",
        handler=show,
        text="Tell how a delivery stands.",
        scope="read",
        answers={200: Status, 304: None},
        parameters=(
            PREFER,
            Parameter(name="If-None-Match", where="header", text="Its ETag as it was seen last."),
            Parameter(
                name="envelope", text="Wrap it as the value of data.", schema={"type": "string", "enum": ["data"]}
            ),
        ),
        problems=(404, 410),
    ),
    Operation(
        method="GET",
        path="/requests/{id}/attempts",
        handler=attempts,
        text="Tell every attempt of a delivery, in order.",
        scope="read",
        answers={200: Attempts},
        problems=(404, 410),
    ),
    Operation(
        method="GET",
        path="/requests/{id}/result",
        handler=result,
        text="Give the captured answer of a delivery that has ended; 202 before.",
        scope="read",
        answers={200: Result, 202: Unfinished},
        parameters=(PREFER,),
        problems=(404, 410),
    ),
)


async def found(request: Request) -> Delivery:
    """Return the delivery that a path names.

    Raises:
        Refusal: 404, there is none; 410, it is older than what is kept.
    """
    service, number = shared_of(request), request.path_params["id"]
    of = await service.store.get(number)
    if of is None:
        raise await _missing(service, number)
    return of


def query_of(given: Mapping[str, str]) -> Query:
    """Return the query that parameters, or fields of a body, ask for.

    Raises:
        Refusal: 422, a value cannot be read.
    """
    state = given.get("status")
    if state is not None and state not in STATES:
        raise Refusal(422, f"status has to be one of {', '.join(STATES)}", field="status")
    return Query(
        state=state,
        lane=given.get("lane"),
        since=_instant(given, "since"),
        until=_instant(given, "until"),
        reason=given.get("reason"),
        schedule=given.get("schedule"),
    )


def limit_of(given: Mapping[str, str], limit: Parameter = LIMIT) -> int:
    """Return how many are wanted, by the parameter that `limited` made.

    Raises:
        OptionsError: it is no number from 1 to 500.
    """
    return parse_integer(given.get(limit.name, str(limit.schema["default"])), limit.name, 1, MOST)


async def _awaited(request: Request, of: Delivery) -> tuple[Delivery, dict[str, str]]:
    """Return a delivery when it has ended, or as it stands after the time that the request prefers to wait."""
    service, found_wait = shared_of(request), _WAIT.search(request.headers.get("prefer", ""))
    if found_wait is None:
        return of, {}
    wait = min(int(found_wait[1]), LONGEST_WAIT)
    applied = {"Preference-Applied": f"wait={wait}"}
    if of.state in ENDS or not wait:
        return of, applied

    async def is_over() -> bool:
        now = await service.store.get(of.id)
        return now is None or now.state in ENDS

    await service.feed.ended(of.id, wait, is_over)
    return await found(request), applied


async def _missing(service: Shared, number: str) -> Refusal:
    """Return why there is no such delivery: an id tells its age (UUIDv7), and so whether it may have been pruned."""
    kept = service.retention
    shortest = min(kept.completed, kept.failed, kept.cancelled)
    match = _ID.fullmatch(number)
    made = int(match[1] + match[2], 16) * 1_000_000 if match else None
    if made is not None and made < await service.store.now() - shortest:
        return Refusal(410, "if there was such a delivery, it is no longer kept")
    return Refusal(404, "there is no such delivery")


def _enveloped(request: Request) -> bool:
    given = request.query_params.get("envelope")
    if given not in {None, "data"}:
        raise Refusal(422, "envelope can be data", field="envelope")
    return given is not None


def _instant(given: Mapping[str, Any], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    # A plus that was not encoded comes as a blank.
    moment = rfc3339(text.strip().replace(" ", "+") if "T" in text.upper() else text)
    if moment is None:
        raise Refusal(422, f'{name} has to be a date-time with its offset such as "2026-12-24T18:00:00Z"', field=name)
    return moment
