"""Operating over HTTP: cancel, retry, replay, lanes."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from comity.policy.units import NS
from comity.store.records import NewDelivery
from comity.web.app import DESCRIPTION
from tests.web.stage import LANE, PLAIN

KEY = quote(LANE, safe="")


async def test_who_cancels_twice_is_answered_the_same(api):
    """An answer may get lost; nothing happens a second time."""
    number = await api.submit()
    first = await api.call("POST", f"/requests/{number}/cancel")
    assert (first[0], first[1]["status"]) == (200, "cancelled")
    seen = await api.store.last_event()
    assert (await api.call("POST", f"/requests/{number}/cancel"))[:2] == first[:2]
    assert await api.store.last_event() == seen


@pytest.mark.parametrize("end", ["completed", "failed"])
async def test_another_end_is_not_cancelled(api, end):
    number = await api.submit()
    await api.deliver(end, status=200 if end == "completed" else 400)
    status, body, _ = await api.call("POST", f"/requests/{number}/cancel")
    assert (status, end in body["detail"]) == (409, True)


async def test_a_delivery_under_way_is_cancelled_after_its_attempt(api):
    number = await api.submit()
    claim = await api.begin()
    _, body, _ = await api.call("POST", f"/requests/{number}/cancel")
    assert (body["status"], body["sending"], body["cancelling"]) == ("pending", True, True)
    assert (await api.call("POST", f"/requests/{number}/cancel"))[:2] == (200, body)
    await api.end(claim, "retry", status=500)
    assert (await api.store.get(number)).state == "cancelled"


async def test_a_waiting_delivery_is_sent_now(api):
    number = await api.submit(delay=3600)
    _, body, _ = await api.call("POST", f"/requests/{number}/retry")
    assert (await api.call("POST", f"/requests/{number}/retry"))[:2] == (200, body)
    assert body["dueAt"] == "2027-01-15T08:00:00.000Z"
    await api.deliver()
    assert (await api.call("POST", f"/requests/{number}/retry"))[0] == 409


async def test_what_has_ended_is_replayed_under_its_id(api):
    number = await api.submit()
    assert (await api.call("POST", f"/requests/{number}/replay"))[0] == 409
    await api.deliver("failed", status=400)
    api.clock.now += NS
    status, body, _ = await api.call("POST", f"/requests/{number}/replay")
    assert (status, body["id"], body["status"], body["attemptCount"]) == (200, number, "pending", 1)
    assert (await api.call("POST", f"/requests/{number}/replay"))[:2] == (200, body)


async def test_all_that_matches_is_replayed_page_by_page(api):
    for _ in range(3):
        await api.submit()
        await api.deliver("failed", status=400, reason="status")
    await api.submit()
    await api.deliver()
    failed = {"status": "failed", "reason": "status"}
    _, first, _ = await api.call("POST", "/requests/replay?limit=2", failed)
    _, second, _ = await api.call("POST", f"/requests/replay?limit=2&cursor={first['cursor']}", failed)
    assert ((first["count"], second["count"]), second["cursor"]) == ((2, 1), None)
    assert (await api.store.counts()).completed == 1
    assert (await api.call("POST", "/requests/replay", {"state": "failed"}))[0] == 422
    assert (await api.call("POST", "/requests/replay", {"since": "x"}))[0] == 422


async def test_a_replay_without_a_limit_takes_as_many_as_the_description_says(api):
    parameters = json.loads(DESCRIPTION)["paths"]["/requests/replay"]["post"]["parameters"]
    (most,) = [each["schema"]["default"] for each in parameters if each["name"] == "limit"]
    for made in await api.store.submit([NewDelivery(origin=LANE, method="GET", url=LANE)] * (most + 1)):
        await api.store.cancel(made.id)
    _, done, _ = await api.call("POST", "/requests/replay", {"status": "cancelled"})
    assert (done["count"], most) == (500, 500)


@pytest.mark.parametrize(
    ("method", "path", "given", "field"),
    [
        ("POST", "/requests/replay", {"state": "failed"}, "state"),
        ("POST", "/requests/replay", {"status": "gone"}, "status"),
        ("PATCH", f"/lanes/{KEY}", {"paused": 1}, "paused"),
    ],
)
async def test_a_refusal_names_the_field(api, method, path, given, field):
    status, body, _ = await api.call(method, path, given)
    assert (status, body["field"]) == (422, field)


async def test_everything_is_not_replayed_by_leaving_out_what(api):
    await api.submit()
    await api.deliver()
    assert (await api.call("POST", "/requests/replay", {}))[0] == 422
    assert (await api.call("POST", "/requests/replay", {"status": None}))[0] == 422
    assert (await api.store.counts()).completed == 1


async def test_what_is_not_there_cannot_be_operated_on(api):
    for what in ("cancel", "retry", "replay"):
        assert (await api.call("POST", f"/requests/none/{what}"))[0] == 404
    for method in ("GET", "PATCH"):
        assert (await api.call(method, "/lanes/none", {} if method == "PATCH" else None))[0] == 404


async def test_a_lane_is_paused_limited_and_resumed(api):
    await api.submit()
    status, body, _ = await api.call(
        "PATCH", f"/lanes/{KEY}", {"paused": True, "limits": {"rate": "5/s", "minGapMs": 20}}
    )
    assert (status, body["paused"], body["limits"]) == (200, True, {"rate": "5/s", "minGapMs": 20})
    assert body["counts"] == {
        "pending": 1, "retrying": 0, "completed": 0, "failed": 0, "cancelled": 0, "ready": 1, "held": 0
    }  # fmt: skip
    _, body, _ = await api.call("PATCH", f"/lanes/{KEY}", {"paused": False, "limits": None})
    assert (body["key"], body["paused"], body["limits"]) == (LANE, False, {})
    _, listed, _ = await api.call("GET", "/lanes")
    assert listed["lanes"] == [body]


async def test_the_lane_of_an_origin_has_its_limits_before_its_first_delivery(api):
    limits = {"rate": "5/s"}
    status, body, _ = await api.call("PATCH", f"/lanes/{KEY}", {"limits": limits})
    assert (status, body["key"], body["origin"], body["limits"]) == (200, LANE, LANE, limits)
    await api.submit()
    _, body, _ = await api.call("GET", f"/lanes/{KEY}")
    assert (body["limits"], body["counts"]["pending"]) == (limits, 1)


@pytest.mark.parametrize(
    "key", ["mail", f"{LANE}/", f"{LANE}:443", LANE.upper(), f"{LANE}/x", "ftp://api.example", "http://10.0.0.1", "x:y"]
)
async def test_no_other_name_makes_a_lane(api, key):
    """One that no delivery would come to, or that leads to where nobody may."""
    assert (await api.call("PATCH", f"/lanes/{quote(key, safe='')}", {"paused": True}))[0] == 404
    assert await api.store.lanes() == []


async def test_a_change_of_nothing_makes_no_lane(api):
    assert (await api.call("PATCH", f"/lanes/{KEY}", {"unblock": True}))[0] == 404
    assert await api.store.origins() == []


async def test_a_lane_is_put_in_order_by_a_change_or_by_its_first_submission(api):
    """An order that cannot be kept is refused, by the field that asks for it."""
    await api.submit()
    status, body, _ = await api.call("POST", "/requests", PLAIN | {"ordered": True})
    assert (status, body["field"]) == (422, "ordered")
    _, body, _ = await api.call("PATCH", f"/lanes/{KEY}", {"ordered": True})
    assert body["ordered"] is True
    await api.submit(ordered=True)
    await api.submit(ordered=True, lane="line")
    _, body, _ = await api.call("GET", "/lanes/line")
    assert (body["ordered"], body["counts"]["pending"]) == (True, 1)
    _, body, _ = await api.call("PATCH", f"/lanes/{KEY}", {"ordered": False})
    assert body["ordered"] is False


@pytest.mark.parametrize(
    "change",
    [
        {"limits": {"rate": "fast"}},
        {"limits": {"concurrency": 0}},
        {"limits": {"minGapMs": -1}},
        {"limits": {"per": 1}},
        {"paused": 1},
        {"ordered": None},
        {"pause": True},
    ],
)
async def test_a_change_that_cannot_be_used_changes_nothing(api, change):
    await api.submit()
    status, _, headers = await api.call("PATCH", f"/lanes/{KEY}", {"paused": True} | change)
    assert (status, headers["Content-Type"]) == (422, "application/problem+json")
    assert not (await api.store.lane(LANE)).paused


async def test_a_blocked_origin_is_freed(api):
    await api.submit()
    await api.deliver("retry", status=429)
    await api.store.hold(api.lease, LANE, pause=9 * NS, block=60 * NS)
    _, body, _ = await api.call("GET", f"/lanes/{KEY}")
    assert body["originBlockedUntil"] == "2027-01-15T08:01:00.000Z"
    _, body, _ = await api.call("PATCH", f"/lanes/{KEY}", {"unblock": True})
    assert (body["originPausedUntil"], body["originBlockedUntil"]) == (None, None)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"minGapMs": -1}, "minGapMs"),
        ({"minGapMs": "x"}, "minGapMs"),
        ({"rate": "fast"}, "rate"),
        ({"rate": ["5/s", "2 tokens/s"]}, "rate"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
async def test_a_limit_that_cannot_be_used_is_called_as_it_was_given(api, limits, field):
    await api.submit()
    status, body, _ = await api.call("PATCH", f"/lanes/{KEY}", {"limits": limits})
    assert (status, body["field"]) == (422, field)


@pytest.mark.parametrize(
    ("method", "target", "field"),
    [
        ("GET", "/requests?status=sent", "status"),
        ("GET", "/requests?since=yesterday", "since"),
        ("GET", "/requests?limit=0", "limit"),
        ("GET", "/requests?limit=1&limit=2", "limit"),
        ("GET", "/requests?colour=red", "colour"),
        ("GET", "/requests?cursor=x", "cursor"),
        ("GET", "/healthz?x=1", "x"),
        ("GET", "/events?after=x", "Last-Event-ID"),
    ],
)
async def test_a_value_that_cannot_be_used_is_422_and_named_wherever_it_stands(api, method, target, field):
    """Only a body that is no JSON is 400."""
    status, body, _ = await api.call(method, target)
    assert (status, body["field"]) == (422, field)
