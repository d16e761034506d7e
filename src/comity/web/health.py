"""Health: whether the service lives, whether it can take work, and its numbers."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from comity.errors import StoreError
from comity.store.records import Counts
from comity.web.meter import Sample, family, table
from comity.web.operation import LOG, Operation, reply
from comity.web.problem import STORE_RETRY, Refusal
from comity.web.shared import shared_of

PROMETHEUS = "text/plain"

_MOST_LANES = 1_000
_STATES = ("pending", "retrying", "completed", "failed", "cancelled")


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """All is well."""

    status: str = "ok"


async def alive(_: Request) -> Response:
    """Answer that the process answers."""
    return reply(Health())


async def ready(request: Request) -> Response:
    """Answer whether submissions can be stored."""
    service = shared_of(request)
    if service.feed.stopped:
        raise Refusal(503, "the service stops", headers={"Retry-After": str(STORE_RETRY)})
    service.storing.check()
    await service.store.counts()
    return reply(Health())


async def metrics(request: Request) -> Response:
    """Answer with the numbers of queue and answers."""
    service = shared_of(request)
    refused: list[Sample] = [({"reason": reason}, count) for reason, count in sorted(service.storing.refusals.items())]
    told = [
        family("comity_http_requests_total", "counter", "Answers of the API.", service.meter.samples()),
        family("comity_submissions_refused_total", "counter", "Submissions that the store refused.", refused),
        family(
            "comity_store_takes_in", "gauge", "Whether the last was stored.", [({}, int(not service.storing.refuses))]
        ),
    ]
    try:
        counts, lanes = await service.store.counts(), await service.store.lanes("", _MOST_LANES)
    except StoreError as error:
        if service.may_say(f"store {error.reason}"):
            LOG.error("the store refused: %s", error)
        told.append(family("comity_store_up", "gauge", "Whether the store takes part.", [({}, 0)]))
    else:
        live = [(each.key, _live(each.counts)) for each in lanes]
        paused: list[Sample] = [({"lane": each.key}, int(each.paused)) for each in lanes]
        told += [
            family("comity_store_up", "gauge", "Whether the store takes part.", [({}, 1)]),
            family("comity_deliveries", "gauge", "Deliveries by state.", _by_state(counts)),
            table(
                "comity_lane_deliveries",
                "gauge",
                f"Live ones of the first {_MOST_LANES} lanes.",
                ("lane", "state"),
                live,
            ),
            family("comity_lane_paused", "gauge", "Whether a lane is paused.", paused),
        ]
    return PlainTextResponse("\n".join(told) + "\n", media_type=f"{PROMETHEUS}; version=0.0.4")


OPERATIONS = (
    Operation(method="GET", path="/healthz", handler=alive, text="Is it alive?", scope=None, answers={200: Health}),
    Operation(method="GET", path="/readyz", handler=ready, text="Can it store?", scope=None, answers={200: Health}),
    Operation(
        method="GET",
        path="/metrics",
        handler=metrics,
        text="Numbers in the text format of Prometheus.",
        scope="read",
        answers={200: PROMETHEUS},
    ),
)


def _by_state(counts: Counts) -> list[Sample]:
    return [({"state": state}, getattr(counts, state)) for state in _STATES]


def _live(counts: Counts) -> dict[str, int]:
    return {"pending": counts.pending, "retrying": counts.retrying, "ready": counts.ready, "held": counts.held}
