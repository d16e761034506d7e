"""ServiceClient: what it asks and how it waits, both ways."""

from __future__ import annotations

import asyncio
from inspect import signature
from urllib.parse import urlsplit

import pytest

from comity.errors import ConnectFailed, StatusError, TimedOut
from comity.policy.retry import Retry
from comity.service import AsyncServiceClient, ServiceClient
from comity.web.security import Tokens
from tests.web.stage import LANE, staged


@pytest.fixture
async def api(tmp_path):
    async with staged(tmp_path) as served:
        yield served


def everything(service):
    """Use each method of a blocking client once; return what is worth a look."""
    made = service.submit("https://api.example/x", method="PUT", body="b", max_retries=2, delay="1h")
    again = service.submit("https://api.example/x", body="b", idempotency_key="k")
    lines = [{"url": "https://api.example/x", "method": "GET"}, {"url": "nowhere", "method": "GET"}]
    many = list(
        service.submit_many([*lines, {"url": "https://api.example/x", "method": "GET", "idempotency_key": "k"}])
    )
    retried = service.retry(made["id"])
    cancelled = service.cancel(made["id"])
    waited = service.wait(made["id"])
    replayed = service.replay(made["id"])
    service.cancel(made["id"])
    return {
        "status": service.get(made["id"])["status"],
        "max": retried["maxRetries"],
        "ends": [cancelled["status"], waited["status"], replayed["status"]],
        "many": ["accepted" in each for each in many],
        "attempts": service.attempts(again["id"]),
        "result": service.result(again["id"])["status"],
        "listed": [each["status"] for each in service.deliveries(status="cancelled")],
        "all": len(list(service.deliveries(limit=1))),
        "count": service.replay_all(status="cancelled"),
        "lane": service.change_lane(LANE, paused=True, limits={"rate": "5/s"})["limits"],
        "lanes": [each["key"] for each in service.lanes()],
        "event": next(service.events(after=0))["kind"],
    }


async def test_a_program_without_an_event_loop_can_do_everything(api):
    def work():
        with ServiceClient(api.url) as service:
            return everything(service)

    assert await asyncio.to_thread(work) == {
        "status": "cancelled", "max": 2, "ends": ["cancelled", "cancelled", "pending"], "many": [True, False, False],
        "attempts": [], "result": "pending", "listed": ["cancelled"], "all": 3, "count": 1, "lane": {"rate": "5/s"},
        "lanes": [LANE], "event": "pending",
    }  # fmt: skip


async def test_schedules_are_made_changed_and_removed_without_an_event_loop(api):
    def work():
        with ServiceClient(api.url) as service:
            made = service.submit("https://api.example/x", cron="0 12 * * *", zone="Europe/Berlin", deadline="10m")
            number = made["schedule"]
            told = [each["nextAt"] for each in service.schedules()]
            told += [service.change_schedule(number, paused=paused)["paused"] for paused in (True, False)]
            runs = [each["status"] for each in service.deliveries(schedule=number)]
            service.remove_schedule(number)
            return [*told, runs, list(service.schedules())]

    assert await asyncio.to_thread(work) == ["2027-01-15T11:00:00.000Z", True, False, ["pending", "cancelled"], []]


async def test_schedules_are_made_changed_and_removed_on_an_event_loop(api):
    async with AsyncServiceClient(api.url) as service:
        fields = {"cron": "@daily", "overlap": "skip"}
        with pytest.raises(StatusError, match="422"):
            await service.submit("https://api.example/x", **fields)
        numbers = [
            (await service.submit("https://api.example/x", **fields | {"cron": "0 0 * * *"}))["schedule"] for _ in "ab"
        ]
        assert [each["id"] async for each in service.schedules()] == numbers
        assert (await service.change_schedule(numbers[0], paused=True))["nextAt"] is None
        assert (await service.schedule(numbers[1]))["overlap"] == "skip"
        await service.remove_schedule(numbers[1])
        with pytest.raises(StatusError, match="404"):
            await service.schedule(numbers[1])


async def test_an_event_loop_waits_for_an_end_as_the_service_hints(api):
    """NP-044: it looks again by nextPollMs; here an end comes while the service waits with it."""
    async with AsyncServiceClient(api.url) as service:
        made = await service.submit("https://api.example/x")
        asked = asyncio.create_task(service.get(made["id"], wait=60))
        await api.waited_for()
        await api.deliver()
        assert (await asked)["status"] == "completed"
        assert (await service.wait(made["id"]))["result"]["body"] == "fine"


async def test_a_wait_has_a_deadline(api):
    async with AsyncServiceClient(api.url) as service:
        made = await service.submit("https://api.example/x", delay=3600)
        with pytest.raises(TimedOut):
            await service.wait(made["id"], deadline=1)


async def test_a_refusal_is_a_status_error_whose_message_says_why(api):
    """Both ways; the field is named once."""

    def work():
        with ServiceClient(api.url) as service, pytest.raises(StatusError, match="answered 404 Not Found: there is no"):
            service.get("none")

    await asyncio.to_thread(work)
    async with AsyncServiceClient(api.url) as service:
        with pytest.raises(StatusError, match="422 Unprocessable Entity: lane has to be 1 to 200") as refused:
            await service.submit("https://api.example/x", lane="a b")
        assert '"field":"lane"' in refused.value.body
        with pytest.raises(StatusError, match="Entity: url 'ftp"):
            await service.submit("ftp://api.example")


def test_what_a_blocking_client_yields_is_annotated_for_a_plain_loop():
    told = {name: str(signature(getattr(ServiceClient, name)).return_annotation) for name in ("lanes", "deliveries")}
    assert told == dict.fromkeys(told, "Generator[Json, None, None]")


async def test_a_token_is_sent(tmp_path):
    async with (
        staged(tmp_path, tokens=Tokens(["me admin 0123456789abcdef"])) as api,
        AsyncServiceClient(api.url, token="0123456789abcdef") as service,
    ):
        made = await service.submit("https://api.example/x")
        assert [each["id"] async for each in service.deliveries()] == [made["id"]]


async def test_events_are_followed_on_an_event_loop(api):
    async with AsyncServiceClient(api.url) as service:
        made = await service.submit("https://api.example/x")
        events = service.events(after=0)
        assert (await anext(events))["delivery"] == made["id"]
        await events.aclose()
        assert [each["key"] async for each in service.lanes()] == [LANE]


async def test_readers_of_events_go_on_where_they_were_when_the_service_is_back(tmp_path):
    """On an event loop and without one; what happened before they are connected again is not missed."""
    async with staged(tmp_path) as api:
        url = api.url
        made = [await api.submit()]
        loop, blocking = AsyncServiceClient(url), ServiceClient(url)
        readers = loop.events(after=0), blocking.events(after=0)
        seen = [(await anext(readers[0]))["delivery"], (await asyncio.to_thread(next, readers[1]))["delivery"]]
        assert seen == made * 2
    async with staged(tmp_path, port=urlsplit(url).port) as api:
        made = [await api.submit()]
        later = asyncio.create_task(asyncio.to_thread(next, readers[1]))
        assert [(await anext(readers[0]))["delivery"], (await later)["delivery"]] == made * 2
        await readers[0].aclose()
        await loop.aclose()
        await asyncio.to_thread(lambda: (readers[1].close(), blocking.close()))


async def test_events_of_a_service_that_refuses_or_is_not_there_are_an_error(tmp_path):
    async with (
        staged(tmp_path, tokens=Tokens(["me submit 0123456789abcdef"])) as api,
        AsyncServiceClient(api.url) as service,
    ):
        with pytest.raises(StatusError, match="answered 401 Unauthorized: "):
            await anext(service.events())
    async with AsyncServiceClient(api.url, retry=Retry(retries=0)) as service:
        with pytest.raises(ConnectFailed):
            await anext(service.events())
