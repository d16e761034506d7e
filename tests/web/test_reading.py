"""Reading over HTTP: how a delivery stands, its attempts, its result, lists."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from comity.policy.units import NS
from comity.service.vault import Vault
from comity.store.records import Answer, Retention
from tests.web.stage import PLAIN, staged

MS = NS // 1000


async def test_a_new_delivery_shows_all_its_fields(api):
    """NP-008, NP-017, NP-047: flat; no result yet."""
    number = await api.submit(maxRetries=3, backoffMs=500)
    status, body, _ = await api.call("GET", f"/requests/{number}")
    expected = {
        "id": number, "url": PLAIN["url"], "method": "GET", "status": "pending", "attemptCount": 0, "maxRetries": 3,
        "backoffMs": 500, "nextRetryAt": None, "lastError": None, "result": None, "attempts": [], "nextPollMs": 2000,
    }  # fmt: skip
    assert (status, {name: body[name] for name in expected}) == (200, expected)


@pytest.mark.parametrize("keys", [[], [b"k" * 32]])
async def test_no_answer_shows_a_header_that_was_handed_in(tmp_path, keys):
    """Sealed or not: they are sent, and told to nobody."""
    async with staged(tmp_path, vault=Vault(keys)) as api:
        sent = {"Authorization": "Bearer hunter2", "Cookie": "a=hunter2"}
        fields = PLAIN | {"headers": sent, "callbackUrl": "https://me.example/?token=hunter2"}
        _, made, _ = await api.call("POST", "/requests", fields)
        number = made["id"]
        stored = (await api.store.payload(number)).headers
        assert (b"hunter2" in stored) == (not keys)
        await api.deliver()
        for path in ("", "/attempts", "/result", "?envelope=data"):
            status, body, headers = await api.call("GET", f"/requests/{number}{path}")
            assert (status, "hunter2" in f"{body} {headers}") == (200, False)
        for path in ("/requests", "/lanes", "/metrics"):
            assert "hunter2" not in str(await api.call("GET", path))


async def test_a_failed_attempt_shows_its_error_and_when_the_next_comes(api):
    """NP-009, NP-010, NP-015, NP-016, NP-027: counted from 1, waitedMs is how long it took, the wait before it apart."""
    number = await api.submit()
    api.clock.now += 250 * MS
    claim = await api.begin()
    api.clock.now += 40 * MS
    await api.end(claim, "retry", wait=1500 * MS, status=500)
    _, body, headers = await api.call("GET", f"/requests/{number}")
    (attempt,) = body["attempts"]
    assert (body["status"], body["attemptCount"], body["lastError"]) == ("retrying", 1, "HTTP 500")
    assert body["nextRetryAt"] == "2027-01-15T08:00:01.790Z"
    assert {name: attempt[name] for name in ("attemptNumber", "statusCode", "waitedMs", "delayBeforeMs", "madeAt")} == {
        "attemptNumber": 1, "statusCode": 500, "waitedMs": 40, "delayBeforeMs": 250, "madeAt": "2027-01-15T08:00:00.250Z",
    }  # fmt: skip
    assert headers["Retry-After"] == "2"


async def test_a_completed_delivery_shows_its_result_and_no_hint(api):
    """NP-017, NP-043: nothing more will come."""
    number = await api.submit()
    await api.deliver()
    _, body, headers = await api.call("GET", f"/requests/{number}")
    assert (body["status"], body["result"]["statusCode"], body["result"]["body"]) == ("completed", 200, "fine")
    assert "nextPollMs" not in body
    assert "Retry-After" not in headers


@pytest.mark.parametrize(("elapsed", "wait"), [(0, 2), (4.999, 2), (5, 4), (15, 8), (30, 16), (3600, 16)])
async def test_the_hint_follows_the_time_that_has_passed(api, elapsed, wait):
    """NP-041, NP-045."""
    number = await api.submit()
    api.clock.now += int(elapsed * NS)
    _, body, headers = await api.call("GET", f"/requests/{number}")
    assert (body["nextPollMs"], headers["Retry-After"]) == (wait * 1000, str(wait))


async def test_an_envelope_wraps_it_when_it_is_asked_for(api):
    """NP-048."""
    number = await api.submit()
    _, flat, _ = await api.call("GET", f"/requests/{number}")
    _, wrapped, _ = await api.call("GET", f"/requests/{number}?envelope=data")
    assert wrapped == {"data": flat}
    assert (await api.call("GET", f"/requests/{number}?envelope=x"))[0] == 422


async def test_what_has_not_changed_is_not_sent_again(api):
    number = await api.submit()
    _, _, first = await api.call("GET", f"/requests/{number}")
    tag = {"If-None-Match": first["ETag"]}
    for told in (tag["If-None-Match"], '"other", ' + tag["If-None-Match"], "*"):  # RFC 9110 section 13.1.2
        assert (await api.call("GET", f"/requests/{number}", headers={"If-None-Match": told}))[0] == 304
    await api.deliver()
    status, _, second = await api.call("GET", f"/requests/{number}", headers=tag)
    assert (status, second["ETag"] != first["ETag"]) == (200, True)


async def test_secrets_of_a_url_and_of_an_answer_are_not_shown(api):
    number = await api.submit(
        url="https://api.example/?api_key=hunter2", callbackUrl="https://me.example/?token=hunter2"
    )
    headers = b'[["Set-Cookie", "id=hunter2"], ["X-Plain", "1"]]'
    await api.deliver(answer=Answer(status=200, headers=headers, body=b"\xff", size=1, sha256=sha256(b"\xff").digest()))
    for path in (f"/requests/{number}", f"/requests/{number}/result", "/requests"):
        _, body, _ = await api.call("GET", path)
        assert "hunter2" not in str(body)
    _, body, _ = await api.call("GET", f"/requests/{number}/result")
    told = body["result"]
    assert (told["body"], told["bodyBase64"], told["sha256"]) == (None, "/w==", sha256(b"\xff").hexdigest())
    assert ["X-Plain", "1"] in told["headers"]


async def test_unknown_deliveries_are_not_found_and_old_ones_gone(api):
    """NP-011."""
    for number in ("x", "018bcfe5", "%00"):
        status, body, headers = await api.call("GET", f"/requests/{number}")
        assert (status, body["title"], headers["Content-Type"]) == (404, "Not Found", "application/problem+json")
    number = await api.submit()
    await api.deliver()
    api.clock.now += 8 * 86_400 * NS
    await api.store.prune(Retention())
    for path in ("", "/attempts", "/result"):
        assert (await api.call("GET", f"/requests/{number}{path}"))[0] == 410


async def test_a_result_is_202_until_there_is_one(api):
    """NP-046: 202 with Retry-After while it is pending, 200 in terminal states alone."""
    number = await api.submit()
    status, body, headers = await api.call("GET", f"/requests/{number}/result")
    assert (status, body, headers["Retry-After"]) == (202, {"id": number, "status": "pending", "nextPollMs": 2000}, "2")
    await api.deliver("failed", status=404, reason="status", answer=Answer(status=404, body=b"no"))
    status, body, _ = await api.call("GET", f"/requests/{number}/result")
    assert (status, body["status"], body["lastError"], body["result"]["body"]) == (200, "failed", "HTTP 404", "no")


async def test_attempts_are_listed(api):
    """NP-026, NP-027: three failures and a success are four attempts."""
    number = await api.submit()
    for _ in range(3):
        await api.deliver("retry", status=500)
    await api.deliver()
    _, body, _ = await api.call("GET", f"/requests/{number}/attempts")
    told = [(each["attemptNumber"], each["statusCode"]) for each in body["attempts"]]
    assert told == [(1, 500), (2, 500), (3, 500), (4, 200)]


@pytest.mark.parametrize("path", ["", "/result"])
async def test_who_prefers_to_wait_is_answered_when_it_ends(api, path):
    number = await api.submit()
    claim = await api.begin()
    asked = asyncio.create_task(api.call("GET", f"/requests/{number}{path}", headers={"Prefer": "wait=60"}))
    await api.waited_for()
    await api.end(claim)
    status, body, headers = await asked
    assert (status, body["status"], headers["Preference-Applied"]) == (200, "completed", "wait=60")


async def test_a_wait_ends_when_its_time_is_over_and_is_never_longer_than_a_minute(api):
    number = await api.submit()
    _, body, headers = await api.call("GET", f"/requests/{number}", headers={"Prefer": "respond-async, wait=0"})
    assert (body["status"], headers["Preference-Applied"]) == ("pending", "wait=0")
    await api.deliver()
    _, _, headers = await api.call("GET", f"/requests/{number}", headers={"Prefer": "wait=100000"})
    assert headers["Preference-Applied"] == "wait=60"


async def test_a_list_shows_all_or_those_of_a_status(api):
    """NP-012..014."""
    done = await api.submit()
    await api.deliver()
    waits = await api.submit(lane="other")

    async def ids(query=""):
        return [each["id"] for each in (await api.call("GET", f"/requests{query}"))[1]["requests"]]

    assert await ids() == [waits, done]
    assert await ids("?status=completed") == [done]
    assert await ids("?lane=other") == [waits]
    assert [await ids(f"?status={state}") for state in ("retrying", "failed", "cancelled")] == [[], [], []]
    assert (await api.call("GET", "/requests?status=sent"))[0] == 422
    assert await ids("?since=2027-01-15T08:00:00.001Z") == []
    assert await ids("?until=2027-01-15T08:00:00.001Z") == [waits, done]
    assert (await api.call("GET", "/requests?since=yesterday"))[0] == 422


async def test_a_list_goes_on_where_a_page_ended(api):
    made = [await api.submit() for _ in range(5)]
    path, seen = "/requests?limit=2&status=pending", []
    while path:
        _, body, headers = await api.call("GET", path)
        seen += [each["id"] for each in body["requests"]]
        path = headers["Link"].partition(">")[0][1:] if "Link" in headers else None
    assert seen == made[::-1]
    for wrong in ("cursor=x", "cursor=ffffffffffffffffffff", "limit=0", "limit=501", "limit=x"):
        assert (await api.call("GET", f"/requests?{wrong}"))[0] == 422
