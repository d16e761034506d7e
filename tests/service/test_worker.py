"""Worker: what was submitted arrives, as often as its rules allow, and its row says so. Real sockets, a real file."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import msgspec
import pytest

from comity.policy.options import Policy
from comity.policy.units import NS
from comity.service.signature import Signer, new_secret
from comity.service.terms import Terms
from comity.store.records import Query, Retention
from tests.service.running import LIMIT, bench


@pytest.fixture
async def work(tmp_path):
    async with bench(tmp_path) as made:
        yield made


async def test_a_delivery_is_sent_once_and_completed(work):
    """NP-017, NP-027: one send, one attempt row, the answer captured."""
    delivery = await work.submit("/echo", body=b"hello", headers=b'{"X-One":"1"}')
    async with work.service():
        found = await work.end(delivery)
    assert (found.state, found.attempts, found.status, found.error) == ("completed", 1, 200, None)
    (arrival,) = work.upstream.log
    sent = dict(arrival.headers)
    assert (arrival.method, arrival.body, sent["X-One"]) == ("POST", b"hello", "1")
    answer = await work.store.answer(delivery)
    assert (answer.status, answer.truncated, answer.size) == (200, False, len(answer.body))
    assert answer.sha256 == hashlib.sha256(answer.body).digest()
    assert ["content-type", "application/json"] in msgspec.json.decode(answer.headers)
    (attempt,) = await work.store.attempts(delivery)
    assert attempt.started_at <= attempt.sent_at <= attempt.answered_at <= attempt.ended_at
    assert (attempt.sent, attempt.decision) == ("yes", "completed")
    assert msgspec.json.decode(attempt.timings)["response"] > 0


async def test_server_errors_are_retried_with_growing_waits(work):
    """NP-024, NP-026, NP-015..023: three HTTP 500, then success: four attempts whose gaps double with jitter."""
    delivery = await work.submit("/flaky/a?fail=3&code=500")
    async with work.service():
        found = await work.end(delivery)
    assert (found.state, found.attempts) == ("completed", 4)
    rows = await work.store.attempts(delivery)
    assert [row.status for row in rows] == [500, 500, 500, 200]
    assert [row.error for row in rows[:3]] == ["HTTP 500"] * 3
    waits = [row.waited / NS for row in rows[1:]]
    assert [0.16 * 2**n <= wait for n, wait in enumerate(waits)] == [True] * 3


async def test_retries_end_and_the_delivery_fails(work):
    """NP-016, NP-024, PO-03: failed with the last error and all attempts, listed, and delivered when it is replayed."""
    delivery = await work.submit("/flaky/a?fail=3&code=500", terms={"max_retries": 2, "backoff_ms": 100})
    async with work.service():
        found = await work.end(delivery)
        assert (found.state, found.error, found.reason, found.attempts) == ("failed", "HTTP 500", "attempts", 3)
        listed = await work.store.deliveries(Query(state="failed"))
        assert [each.id for each in listed.deliveries] == [delivery]
        await work.store.replay(delivery)
        found = await work.when(delivery, lambda row: row.state == "completed")
    assert found.attempts == 4


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_client_errors_are_final(work, status):
    """NP-025: one attempt, the error visible, the answer kept."""
    delivery = await work.submit(f"/status/{status}")
    async with work.service():
        found = await work.end(delivery)
    assert (found.state, found.error, found.attempts) == ("failed", f"HTTP {status}", 1)
    assert (await work.store.answer(delivery)).status == status


async def test_a_refusal_is_waited_out_unless_every_4xx_is_final(work):
    """NP-025: a 429 is tried again when it says, and counts apart; under strict4xx it is final."""
    patient = await work.submit("/flaky/a?fail=1&code=429&retry_after=1", terms={"max_retries": 1, "backoff_ms": 100})
    strict = await work.submit("/status/429", terms={"strict_4xx": True}, lane="strict")
    async with work.service():
        found = await work.end(patient)
        assert (found.state, found.attempts) == ("completed", 2)
        found = await work.end(strict)
        assert (found.state, found.attempts, found.reason) == ("failed", 1, "status")


@pytest.mark.parametrize(
    ("path", "state", "attempts"),
    [("/reset?after=request", "failed", 1), ("/status/500", "failed", 1), ("/flaky/a?fail=1&code=429", "completed", 2)],
)
async def test_at_most_once_sends_again_only_what_was_refused_or_never_sent(work, path, state, attempts):
    """ID-01: a send of unknown outcome is not repeated; a refusal by rate is none."""
    delivery = await work.submit(path, mode="at_most_once")
    async with work.service():
        found = await work.end(delivery)
    assert (found.state, found.attempts, len(work.upstream.log)) == (state, attempts, attempts)
    assert found.reason == ("outcome unknown" if state == "failed" else None)


async def test_at_most_once_sends_again_where_nothing_was_sent(work):
    """ID-01: no connection, no send."""
    delivery = await work.submit(
        "http://127.0.0.1:1/", mode="at_most_once", terms={"max_retries": 1, "backoff_ms": 100}
    )
    async with work.service():
        found = await work.end(delivery)
    assert (found.state, found.attempts, found.reason) == ("failed", 2, "attempts")
    assert [each.sent for each in await work.store.attempts(delivery)] == ["no", "no"]


async def test_all_attempts_and_replays_carry_one_key(work):
    """DD-05, ID-05: the same over all attempts and a replay, another one for a new delivery; the caller's own is kept."""
    first = await work.submit("/flaky/a?fail=2&code=500")
    async with work.service():
        await work.end(first)
        await work.store.replay(first)
        await work.when(first, lambda row: row.attempts == 4 and row.state == "completed")
        await work.end(await work.submit("/flaky/a?fail=2&code=500"))
        await work.end(await work.submit("/ok/1", idempotency_key="own"))
    keys = [dict(each.headers)["Idempotency-Key"] for each in work.upstream.log]
    assert keys[:4] == [f'"{first}"'] * 4
    assert keys[4] not in keys[:4]
    assert keys[5] == '"own"'


async def test_what_the_guard_refuses_is_not_sent_and_not_tried_again(work):
    """A name or address that may not be reached ends the delivery."""
    delivery = await work.submit("http://10.0.0.1/")
    async with work.service():
        found = await work.end(delivery)
    assert (found.state, found.reason, found.attempts) == ("failed", "blocked", 1)
    assert found.error.startswith("TargetBlocked: ")


async def test_a_delivery_that_cannot_be_read_fails_and_others_go_on(work):
    """WC-03: what stands in one row harms no other."""
    bad = await work.submit("/ok/1", headers=b"[1]")
    good = await work.submit("/ok/2")
    async with work.service():
        assert (await work.end(bad)).reason == "invalid"
        assert (await work.end(good)).state == "completed"


async def test_a_url_that_readers_of_urls_differ_about_is_sent_as_it_is(work):
    """WC-03: what the guard lets pass ends no worker."""
    delivery = await work.submit("\\[x")
    async with work.service():
        assert (await work.end(delivery)).status == 404
    assert work.arrivals() == {"/\\[x": 1}


async def test_an_answer_is_kept_up_to_a_cap_and_measured_whole(work):
    """The body that is kept has a bound; size and digest are of all of it."""
    delivery = await work.submit("/ok/1?bytes=300000")
    async with work.service(keep=1_000):
        await work.end(delivery)
    answer = await work.store.answer(delivery)
    assert (answer.truncated, answer.size, len(answer.body)) == (True, 300_000, 1_000)


async def test_a_cancelled_attempt_ends_as_cancelled_and_the_worker_goes_on(work):
    """WC-03: no more attempts of it; the next one is delivered."""
    delivery = await work.submit("/hang")
    async with work.service():
        await work.upstream.until(lambda up: len(up.log) == 1)
        await work.store.cancel(delivery)
        found = await work.end(delivery)
        assert (found.state, found.attempts) == ("cancelled", 1)
        assert (await work.end(await work.submit("/ok/1"))).state == "completed"
    assert (await work.store.attempts(delivery))[0].sent == "maybe"


async def test_a_stuck_lane_leaves_slots_to_others(work):
    """PO-04: what hangs in one lane holds no more than half of the slots, and a quarter while others wait."""
    await work.store.submit([work.delivery(f"/hang?n={n}", lane="stuck") for n in range(30)])
    others = await work.store.submit([work.delivery(f"/ok/{n}") for n in range(20)])
    async with work.service(slots=12, drain=0.1):
        for each in others:
            assert (await work.end(each.id)).state == "completed"
        assert work.upstream.stats().total.in_flight <= 6


async def test_an_end_is_told_by_a_signed_callback(work):
    """A callback is a delivery of its own: once per end, signed by Standard Webhooks, tried again when it fails."""
    secret = new_secret()
    told = work.upstream.url + "/flaky/told?fail=1"
    delivery = await work.submit("/status/404", terms={"callback_url": told})
    async with work.service(secrets=[secret]):
        await work.end(delivery)
        await work.upstream.until(lambda up: len(up.arrivals("/flaky")) == 1)
        lane = (await work.store.lanes("callbacks "))[0]
        (callback,) = (await work.store.deliveries(Query(lane=lane.key))).deliveries
    arrival = work.upstream.arrivals("/flaky")[0]
    headers = dict(arrival.headers)
    Signer([secret]).verify(headers, arrival.body, now=(await work.store.now()))
    body = msgspec.json.decode(arrival.body)
    assert headers["webhook-id"] == callback.id
    assert (body["type"], body["data"]["id"], body["data"]["statusCode"]) == ("delivery.failed", delivery, 404)
    assert (body["data"]["lastError"], body["data"]["reason"]) == ("HTTP 404", "status")
    assert (body["data"]["idempotencyKey"], body["data"]["lane"]) == (None, work.upstream.url)
    assert body["data"]["url"] == work.upstream.url + "/status/404"
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    example = text[text.index('{"type": "delivery.') :].partition("\n\n")[0]
    shown = msgspec.json.decode(example)
    assert (list(shown), list(shown["data"])) == (list(body), list(body["data"]))
    assert Terms.read(callback.options).callback_url is None


async def test_a_signed_delivery_is_signed_anew_at_each_attempt_under_one_id(work, caplog):
    """A worker without the secrets leaves it to one that has them."""
    secret = new_secret()
    delivery = await work.submit("/flaky/a?fail=1", body=b"hello", terms={"signed": True, "backoff_ms": 650})
    async with work.service():
        await work.until(lambda: "COMITY_CALLBACK_SECRETS" in caplog.text)
    await work.store.hasten(delivery)
    async with work.service(secrets=[secret]):
        assert (await work.end(delivery)).attempts == 2
    first, second = (dict(each.headers) for each in work.upstream.log)
    for headers in (first, second):
        Signer([secret]).verify(headers, b"hello", now=await work.store.now())
    assert first["webhook-id"] == second["webhook-id"] == delivery
    assert first["webhook-timestamp"] != second["webhook-timestamp"]


async def test_callbacks_are_submitted_once_however_often_the_service_starts(work):
    """A reader that begins anew goes on where it was."""
    deliveries = [await work.submit("/ok/1", terms={"callback_url": work.upstream.url + "/ok/told"}) for _ in range(3)]
    for _ in range(3):
        async with work.service(secrets=[new_secret()]):
            for each in deliveries:
                await work.end(each)
            await work.upstream.until(lambda up: len(up.arrivals("/ok/told")) == 3)
    lanes = await work.store.lanes("callbacks ")
    assert sum(lane.counts.completed for lane in lanes if lane.key.startswith("callbacks ")) == 3


async def test_a_callback_is_not_told_again_when_it_and_its_key_are_long_deleted(work):
    """Where the reading stands is on the disk by itself."""
    terms, marked = {"callback_url": work.upstream.url + "/ok/told"}, 0
    for count in (1, 2):
        async with work.service(secrets=[new_secret()]), asyncio.timeout(LIMIT):
            await work.end(await work.submit("/ok/1", terms=terms))
            await work.upstream.until(lambda up, count=count: len(up.arrivals("/ok/told")) >= count)
            while (seen := await work.store.marked("callbacks")) == marked:
                pass
            marked = seen
        while (await work.store.prune(Retention(completed=1, keys=1))).more:
            pass
    assert len(work.upstream.arrivals("/ok/told")) == 2


async def test_a_callback_that_cannot_be_sent_is_told_and_holds_up_no_other(work, caplog):
    """Whoever takes a submission in checks it; another version may have been easier on it."""
    bad = await work.submit("/ok/1", terms={"callback_url": "nowhere"})
    unreadable = await work.submit("/ok/2", headers=b"{}")
    good = await work.submit("/ok/3", terms={"callback_url": work.upstream.url + "/ok/told"})
    async with work.service(secrets=[new_secret()]):
        for each in (bad, unreadable, good):
            await work.end(each)
        await work.upstream.until(lambda up: len(up.arrivals("/ok/told")) == 1)
    assert f"the callback of {bad} cannot be sent" in caplog.text


async def test_a_callback_that_cannot_be_signed_is_left_to_a_service_that_can(work):
    """Where several share a store one may have been started without the secrets."""
    async with work.service():
        await work.end(await work.submit("/ok/1", terms={"callback_url": work.upstream.url + "/ok/told"}))
        await work.store.submit([work.delivery("/ok/later", delay=3_600 * NS) for _ in range(600)])
        await work.end(await work.submit("/ok/2"))
    assert await work.store.marked("callbacks") == 0
    async with work.service(secrets=[new_secret()]):
        await work.upstream.until(lambda up: len(up.arrivals("/ok/told")) == 1)


async def test_a_callback_whose_key_another_has_is_told_of(work, caplog):
    """It could be had before such keys were refused."""
    delivery = await work.submit("/ok/1", terms={"callback_url": work.upstream.url + "/ok/told"})
    async with work.service():
        await work.end(delivery)
    seqs = [event.seq for event in await work.store.events(0) if event.kind == "completed"]
    taken = await work.submit("/ok/2", idempotency_key=f"callback {seqs[0]}")
    async with work.service(secrets=[new_secret()]):
        await work.until(lambda: f"callback {seqs[0]} is not sent: {taken} was submitted" in caplog.text)


async def test_a_callback_waits_for_a_worker_that_can_sign_it(work, caplog):
    """Where several share a store one may have been started without the secrets: it tells, and sends and spends nothing."""
    number = await work.submit("/ok/told", lane="callbacks " + work.upstream.url)
    async with work.service():
        await work.until(lambda: "COMITY_CALLBACK_SECRETS" in caplog.text)
    await work.store.hasten(number)
    async with work.service(secrets=[new_secret()]):
        assert (await work.end(number)).attempts == 1
    (arrival,) = work.upstream.log
    assert "webhook-signature" in dict(arrival.headers)


async def test_a_restart_does_not_refill_a_limit(work):
    """The attempts of before count against the rate of the next worker."""
    policy = Policy(rate="3/1h", concurrency=10)
    await work.store.submit([work.delivery(f"/ok/{n}") for n in range(3)])
    async with work.service(policy=policy):
        await work.upstream.until(lambda up: len(up.log) == 3)
    await work.submit("/ok/later")
    async with work.service(policy=policy, patience=NS // 10):
        other = await work.submit("http://127.0.0.1:1/", terms={"max_retries": 1, "backoff_ms": 100})
        await work.end(other)
    assert len(work.upstream.log) == 3
