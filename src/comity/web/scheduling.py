"""Scheduling: how schedules stand, and what people do to them."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from comity.service.scheduler import Scheduler
from comity.service.terms import camel
from comity.store.schedules import Schedule
from comity.web import views
from comity.web.operation import Operation, Parameter, content, decoded, reply
from comity.web.problem import Refusal
from comity.web.reading import LIMIT, limit_of
from comity.web.shared import shared_of
from comity.web.views import Schedules, ScheduleView


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel):
    """What to change of a schedule."""

    paused: bool


async def listed(request: Request) -> Response:
    """Answer a page of schedules."""
    store, given = shared_of(request).store, request.query_params
    now = await store.now()
    page = await store.schedules(given.get("after", ""), limit_of(given))
    return reply(Schedules(schedules=[views.schedule(each, now) for each in page]))


async def show(request: Request) -> Response:
    """Answer how a schedule stands."""
    store = shared_of(request).store
    return reply(views.schedule(_known(await store.schedule(request.path_params["id"])), await store.now()))


async def change(request: Request) -> Response:
    """Pause or resume a schedule."""
    store, paused = shared_of(request).store, decoded(await content(request), ScheduleChange).paused
    changed = _known(await store.change_schedule(request.path_params["id"], paused=paused))
    if not paused:
        await Scheduler(store).make(changed.id)  # so that the answer tells when its next run is due
    return await show(request)


async def remove(request: Request) -> Response:
    """End a schedule."""
    if not await shared_of(request).store.remove_schedule(request.path_params["id"]):
        raise _none()
    return Response(status_code=204)


OPERATIONS = (
    Operation(
        method="GET",
        path="/schedules",
        handler=listed,
        text="List schedules, the oldest first.",
        scope="read",
        answers={200: Schedules},
        parameters=(Parameter(name="after", text="Go on behind the schedule of this id."), LIMIT),
    ),
    Operation(
        method="GET",
        path="/schedules/{id}",
        handler=show,
        text="Tell how a schedule stands.",
        scope="read",
        answers={200: ScheduleView},
        problems=(404,),
    ),
    Operation(
        method="PATCH",
        path="/schedules/{id}",
        handler=change,
        text="Pause or resume a schedule. Paused, the run that waits is cancelled.",
        scope="submit",
        takes=ScheduleChange,
        answers={200: ScheduleView},
        problems=(400, 404, 408, 413, 415),
    ),
    Operation(
        method="DELETE",
        path="/schedules/{id}",
        handler=remove,
        text="End a schedule, and cancel the run that waits.",
        scope="submit",
        answers={204: None},
        problems=(404,),
    ),
)


def _known(found: Schedule | None) -> Schedule:
    if found is None:
        raise _none()
    return found


def _none() -> Refusal:
    return Refusal(404, "there is no such schedule")
