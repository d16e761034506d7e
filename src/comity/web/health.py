"""Health: whether the service lives, whether it can take work, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from comity.errors import StoreError
from comity.policy.units import NS
from comity.store.records import Counts, Lane
from comity.web.meter import Sample, family, summary, table
from comity.web.operation import LOG, Operation, reply
from comity.web.problem import STORE_RETRY, Refusal
from comity.web.shared import Shared, shared_of
from comity.web.tally import Total

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
        told += await _of_store(service)
    except StoreError as error:
        if service.may_say(f"store {error.reason}"):
            LOG.error("the store refused: %s", error)
        told.append(family("comity_store_up", "gauge", "Whether the store takes part.", [({}, 0)]))
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


async def _of_store(service: Shared) -> list[str]:
    store = service.store
    counts, lanes = await store.counts(), await store.lanes("", _MOST_LANES)
    whole, by_lane = await service.tally.read(store, [each.key for each in lanes])
    few, outcome = f"of the first {_MOST_LANES} lanes", "by all workers since the first look, by how they ended"
    live, ended = "comity_lane_deliveries", "comity_lane_attempts_total"
    return [
        family("comity_store_up", "gauge", "Whether the store takes part.", [({}, 1)]),
        family("comity_deliveries", "gauge", "Deliveries by state.", _by_state(counts)),
        table(
            live, "gauge", f"Live ones {few}.", ("lane", "state"), [(each.key, _live(each.counts)) for each in lanes]
        ),
        family("comity_lane_failed", "gauge", f"Failed deliveries that are kept, {few}.", _of_lanes(lanes, _failed)),
        family("comity_lane_paused", "gauge", "Whether a lane is paused.", _of_lanes(lanes, _paused)),
        family("comity_attempts_total", "counter", f"Attempts {outcome}.", _by_outcome(whole)),
        table(
            ended,
            "counter",
            f"Attempts {outcome}, {few}.",
            ("lane", "outcome"),
            [(key, _outcomes(of)) for key, of in by_lane.items()],
        ),
        summary(
            "comity_answer_seconds",
            "From the first byte of an attempt to the beginning of its answer.",
            whole.time_sum / NS,
            whole.answered,
        ),
    ]


def _of_lanes(lanes: Sequence[Lane], value: Callable[[Lane], int]) -> list[Sample]:
    return [({"lane": each.key}, value(each)) for each in lanes]


def _failed(lane: Lane) -> int:
    return max(0, lane.counts.failed)


def _paused(lane: Lane) -> int:
    return int(lane.paused)


def _by_outcome(of: Total) -> list[Sample]:
    return [({"outcome": outcome}, count) for outcome, count in _outcomes(of).items()]


def _outcomes(of: Total) -> dict[str, int]:
    return {"ok": of.ok, "refused": of.refused, "failed": of.failed}


def _by_state(counts: Counts) -> list[Sample]:
    return [({"state": state}, getattr(counts, state)) for state in _STATES]


def _live(counts: Counts) -> dict[str, int]:
    return {"pending": counts.pending, "retrying": counts.retrying, "ready": counts.ready, "held": counts.held}
