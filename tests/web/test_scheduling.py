"""Schedules over HTTP: made with their first run, paused, resumed, ended."""

from __future__ import annotations

import io
import json

import pytest

from comity.policy.units import NS
from comity.service.scheduler import Scheduler
from comity.store.records import Query
from comity.web.security import Tokens
from tests.web.stage import LANE, PLAIN, staged

# The API's clock stands at 2027-01-15T08:00:00Z.
DAILY = PLAIN | {"cron": "0 12 * * *", "zone": "Europe/Berlin"}
FIRST, SECOND = "2027-01-15T11:00:00.000Z", "2027-01-16T11:00:00.000Z"


async def make(api, headers=None, **fields):
    """Submit a schedule; return the answer."""
    status, body, _ = await api.call("POST", "/requests", DAILY | fields, headers=headers)
    assert status == 201, body
    return body


async def seen(api, made):
    """Return how a schedule stands."""
    return (await api.call("GET", f"/schedules/{made['schedule']}"))[1]


async def test_a_schedule_is_answered_with_its_first_run(api):
    status, made, headers = await api.call("POST", "/requests", DAILY)
    assert (status, made["status"], made["nextPollMs"]) == (201, "pending", 3 * 3_600_000)
    assert (headers["Location"], headers["Retry-After"]) == (f"/requests/{made['id']}", "10800")
    _, run, _ = await api.call("GET", f"/requests/{made['id']}")
    assert (run["status"], run["dueAt"], run["schedule"]) == ("pending", FIRST, made["schedule"])
    _, listed, _ = await api.call("GET", f"/requests?schedule={made['schedule']}")
    assert [each["id"] for each in listed["requests"]] == [made["id"]]
    assert (await api.call("GET", "/requests?schedule=none"))[1]["requests"] == []


async def test_a_schedule_tells_what_it_sends_and_when(api):
    made = await make(api, url="https://api.example/x?token=hunter2", deadline="10m", overlap="skip")
    told = await seen(api, made)
    assert told == {
        "id": made["schedule"], "cron": "0 12 * * *", "zone": "Europe/Berlin", "overlap": "skip", "paused": False,
        "nextAt": FIRST, "latest": made["id"], "url": told["url"], "method": "GET", "lane": LANE, "priority": 5,
        "delivery": "at_least_once", "maxRetries": 5, "backoffMs": 1000, "policy": None, "deadlineMs": 600_000, "callbackUrl": None,
        "createdAt": "2027-01-15T08:00:00.000Z",
    }  # fmt: skip
    assert "hunter2" not in told["url"]
    assert (await api.call("GET", "/schedules"))[1] == {"schedules": [told]}
    assert (await api.call("GET", f"/requests/{made['id']}"))[1]["deadline"] == "2027-01-15T11:10:00.000Z"


async def test_a_key_stands_for_the_schedule_as_a_whole(api):
    """The same answer comes again, also when runs have been; another schedule under the key is refused."""
    key = {"Idempotency-Key": '"nightly"'}
    made = await make(api, key)
    api.clock.now += 30 * 3_600 * NS
    await Scheduler(api.store).round()
    status, again, headers = await api.call("POST", "/requests", DAILY, headers=key)
    assert (status, again, headers["Idempotency-Replayed"]) == (201, made, "true")
    for other in (DAILY | {"zone": "UTC"}, DAILY | {"cron": "1 12 * * *"}, DAILY | {"deadline": "1h"}, PLAIN):
        status, body, _ = await api.call("POST", "/requests", other, headers=key)
        assert (status, body["field"]) == (422, "Idempotency-Key")
    assert len((await api.call("GET", "/schedules"))[1]["schedules"]) == 1
    _, listed, _ = await api.call("GET", f"/requests?schedule={made['schedule']}")
    assert len({each["idempotencyKey"] for each in listed["requests"]} | {"nightly"}) == 3


async def test_lines_of_a_batch_are_schedules_too(api):
    lines = [PLAIN, DAILY | {"idempotencyKey": "k"}, DAILY | {"cron": "daily"}, DAILY | {"idempotencyKey": "k"}]
    text = b"\n".join(json.dumps(line).encode() for line in lines)
    headers = {"Content-Type": "application/x-ndjson"}
    _, body, _ = await api.call("POST", "/requests/batch", data=io.BytesIO(text), headers=headers)
    plain, made, wrong, again = map(json.loads, body.splitlines())
    assert ("schedule" in plain["accepted"], again["accepted"], wrong["error"]["field"]) == (
        False,
        made["accepted"],
        "cron",
    )
    assert (await seen(api, made["accepted"]))["nextAt"] == FIRST
    assert (await api.store.counts()).pending == 2


async def test_a_paused_schedule_has_no_next_run_until_it_is_resumed(api):
    made = await make(api)
    path = f"/schedules/{made['schedule']}"
    _, paused, _ = await api.call("PATCH", path, {"paused": True})
    assert (paused["paused"], paused["nextAt"]) == (True, None)
    assert (await api.call("GET", f"/requests/{made['id']}"))[1]["status"] == "cancelled"
    _, resumed, _ = await api.call("PATCH", path, {"paused": False})
    assert (resumed["paused"], resumed["nextAt"], resumed["latest"] == made["id"]) == (False, FIRST, False)
    await api.call("PATCH", path, {"paused": True})
    api.clock.now += 12 * 3_600 * NS
    _, resumed, _ = await api.call("PATCH", path, {"paused": False})
    assert resumed["nextAt"] == SECOND
    assert (await api.call("GET", f"/requests/{resumed['latest']}"))[1]["dueAt"] == SECOND


async def test_a_removed_schedule_is_gone_with_the_run_that_waits(api):
    made = await make(api)
    path = f"/schedules/{made['schedule']}"
    status, body, _ = await api.call("DELETE", path)
    assert (status, body) == (204, b"")
    assert (await api.call("GET", f"/requests/{made['id']}"))[1]["status"] == "cancelled"
    for call in (("GET", path), ("DELETE", path), ("PATCH", path, {"paused": True})):
        status, body, _ = await api.call(*call)
        assert (status, body["detail"]) == (404, "there is no such schedule")
    assert [each.kind for each in await api.store.events(0)] == [
        "pending", "schedule.created", "cancelled", "schedule.removed",
    ]  # fmt: skip


async def test_schedules_are_listed_page_by_page(api):
    made = [(await make(api))["schedule"] for _ in range(3)]
    _, first, _ = await api.call("GET", "/schedules?limit=2")
    _, rest, _ = await api.call("GET", f"/schedules?limit=2&after={made[1]}")
    assert [each["id"] for page in (first, rest) for each in page["schedules"]] == made


@pytest.mark.parametrize("change", [{}, {"paused": "yes"}, {"paused": True, "cron": "* * * * *"}])
async def test_a_change_that_cannot_be_used_changes_nothing(api, change):
    made = await make(api)
    assert (await api.call("PATCH", f"/schedules/{made['schedule']}", change))[0] == 422
    assert (await seen(api, made))["paused"] is False


async def test_a_schedule_that_cannot_be_stored_leaves_nothing_behind(api):
    await api.submit(lane="mail")
    status, body, _ = await api.call("POST", "/requests", DAILY | {"url": "https://b.example/", "lane": "mail"})
    assert (status, body["field"]) == (422, "lane")
    assert await api.store.schedules() == []
    assert len((await api.store.deliveries(Query())).deliveries) == 1


async def test_who_submits_may_change_schedules_and_who_reads_may_look(tmp_path):
    tokens = Tokens(["a submit submit-token-0123456", "b read read-token-01234567"])
    async with staged(tmp_path, tokens=tokens) as api:
        submit, read = ({"Authorization": f"Bearer {word}"} for word in ("submit-token-0123456", "read-token-01234567"))
        made = await make(api, submit)
        path = f"/schedules/{made['schedule']}"
        calls = [("GET", "/schedules"), ("GET", path), ("PATCH", path, {"paused": True}), ("DELETE", path)]
        assert [(await api.call(*call, headers=read))[0] for call in calls] == [200, 200, 403, 403]
        assert [(await api.call(*call, headers=submit))[0] for call in calls] == [403, 403, 200, 204]
