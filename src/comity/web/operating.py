"""Operating: what people do to deliveries and lanes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from comity.errors import InvalidRequest, TargetBlocked
from comity.service.limits import Limits
from comity.service.poll_hint import headers
from comity.service.terms import camel
from comity.store.records import ENDS, Delivery, State
from comity.web import views
from comity.web.operation import Operation, Parameter, content, decoded, reply
from comity.web.problem import Refusal
from comity.web.reading import CURSOR, LIMIT, MOST, found, limit_of, limited, query_of
from comity.web.shared import Shared, shared_of
from comity.web.views import Lanes, LaneView, Replays, Summary

_ALL = limited(MOST)
_MADE_BY = "its first delivery makes it, that of an origin (https://api.example) also a change of it"


class Selection(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel, omit_defaults=True
):
    """Which deliveries to replay, of those that have ended; what is left out is any, but not all of it can be."""

    status: State | None = None
    lane: str | None = None
    since: str | None = None
    until: str | None = None
    reason: str | None = None


class LaneChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel):
    """What to change of a lane; what is left out stays."""

    paused: bool | UnsetType = UNSET
    ordered: Annotated[
        bool | UnsetType, Meta(description="Send its deliveries one after the other, the oldest first.")
    ] = UNSET
    limits: Annotated[Limits | UnsetType | None, Meta(description="null takes its limits away.")] = UNSET
    unblock: Annotated[bool, Meta(description="End pause and block of its origin.")] = False


async def cancel(request: Request) -> Response:
    """Cancel a delivery."""
    of = await found(request)
    if of.state in ENDS and of.state != "cancelled":  # who asks twice, as the answer got lost, has what was asked for
        raise _ended(of, "an end stays")
    return await _done(request, await shared_of(request).store.cancel(of.id))


async def retry(request: Request) -> Response:
    """Make a waiting delivery due now."""
    of = await found(request)
    if of.state in ENDS:
        raise _ended(of, "replay it")
    return await _done(request, await shared_of(request).store.hasten(of.id))


async def replay(request: Request) -> Response:
    """Deliver again what has ended."""
    of = await found(request)
    if (
        of.state not in ENDS and of.enqueued_at == of.created_at
    ):  # else it is alive by a replay that was asked for before
        raise Refusal(409, f"the delivery is {of.state}; what has ended can be replayed")
    return await _done(request, await shared_of(request).store.replay(of.id))


async def replay_all(request: Request) -> Response:
    """Replay what matches."""
    given = request.query_params
    selected = decoded(await content(request), Selection)
    if selected == Selection():
        # Rather a mistake than the wish to send everything again that was ever delivered.
        raise Refusal(422, "say what to replay: at least one of status, lane, since, until and reason")
    query = query_of(msgspec.to_builtins(selected))
    done = await shared_of(request).store.replay_all(query, given.get("cursor"), limit_of(given, _ALL))
    return reply(Replays(count=done.count, cursor=done.cursor))


async def lanes(request: Request) -> Response:
    """Answer a page of lanes."""
    store, given = shared_of(request).store, request.query_params
    now = await store.now()
    page = await store.lanes(given.get("after", ""), limit_of(given))
    return reply(Lanes(lanes=[views.lane(each, now) for each in page]))


async def lane(request: Request) -> Response:
    """Answer how a lane stands."""
    store = shared_of(request).store
    of = await store.lane(request.path_params["key"])
    if of is None:
        raise Refusal(404, f"there is no such lane; {_MADE_BY}")
    return reply(views.lane(of, await store.now()))


async def change_lane(request: Request) -> Response:
    """Change a lane."""
    store, key = shared_of(request).store, request.path_params["key"]
    change = decoded(await content(request), LaneChange)
    paused = None if change.paused is UNSET else change.paused
    limits = None if change.limits is UNSET else b"{}" if change.limits is None else change.limits.stored()
    ordered = None if change.ordered is UNSET else change.ordered
    if any(each is not None for each in (paused, limits, ordered)):
        origin = _origin_named(shared_of(request), key)
        await store.change_lane(key, paused=paused, limits=limits, ordered=ordered, origin=origin)
    if change.unblock:
        await store.unblock(key)
    return await lane(request)


_ONE = (404, 409, 410)
_AFTER = Parameter(name="after", text="Go on behind the lane of this key.")

OPERATIONS = (
    Operation(
        method="POST",
        path="/requests/{id}/cancel",
        handler=cancel,
        text="Cancel a delivery: at once, or after the attempt under way; one that is cancelled is answered as it is.",
        scope="submit",
        answers={200: Summary},
        problems=_ONE,
    ),
    Operation(
        method="POST",
        path="/requests/{id}/retry",
        handler=retry,
        text="Send a delivery that waits now.",
        scope="submit",
        answers={200: Summary},
        problems=_ONE,
    ),
    Operation(
        method="POST",
        path="/requests/{id}/replay",
        handler=replay,
        text="Deliver again what has ended, under the same id; one that is being replayed is answered as it is.",
        scope="submit",
        answers={200: Summary},
        problems=_ONE,
    ),
    Operation(
        method="POST",
        path="/requests/replay",
        handler=replay_all,
        text="Replay what has ended and matches, the newest first, as many as limit says; go on with the cursor.",
        scope="admin",
        takes=Selection,
        answers={200: Replays},
        parameters=(CURSOR, _ALL),
        problems=(400, 408, 413, 415),
    ),
    Operation(
        method="GET",
        path="/lanes",
        handler=lanes,
        text="List lanes.",
        scope="read",
        answers={200: Lanes},
        parameters=(_AFTER, LIMIT),
    ),
    Operation(
        method="GET",
        path="/lanes/{key:path}",
        handler=lane,
        text="Tell how a lane stands.",
        scope="read",
        answers={200: LaneView},
        problems=(404,),
    ),
    Operation(
        method="PATCH",
        path="/lanes/{key:path}",
        handler=change_lane,
        text="Pause, resume, limit, order or unblock a lane.",
        scope="admin",
        takes=LaneChange,
        answers={200: LaneView},
        problems=(400, 404, 408, 413, 415),
    ),
)


def _origin_named(service: Shared, key: str) -> str | None:
    """Return the origin that a lane of this name would lead to, were it made by an origin's deliveries; None for other names."""
    try:
        return key if service.guard.check(key).origin.text == key else None
    except (InvalidRequest, TargetBlocked):
        return None


def _ended(of: Delivery, hint: str) -> Refusal:
    return Refusal(409, f"the delivery is {of.state}: {hint}")


async def _done(request: Request, of: Delivery | None) -> Response:
    if of is None:  # pruned meanwhile
        raise Refusal(410, "the delivery is no longer kept")
    wait = views.hint(of, await shared_of(request).store.now())
    return reply(views.summary(of), headers=headers(wait))
