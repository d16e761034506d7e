"""AsyncClient: limits, retries and the wire together, as a caller meets them."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import traceback
from collections.abc import Coroutine, Iterable

import pytest

from comity.client.async_client import AsyncClient
from comity.errors import (
    BadResponse,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    HostBlocked,
    InvalidRequest,
    OptionsError,
    QueueTimeout,
    RateLimited,
    RequestError,
    StatusError,
    TimedOut,
)
from comity.policy.backoff import Backoff
from comity.policy.options import Policy
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from tests.client.scripted import Peer, Script, Scripted, answer, hang, ok

QUICK = Backoff(base=0.001, cap=0.001)
TRIES = Retry(attempts=3, backoff=QUICK)


def in_turn(*answers: bytes | None) -> Script:
    """Answer the requests of all connections one after another; None hangs up; the last answer stays."""
    left = list(answers)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            data = left.pop(0) if len(left) > 1 else left[0]
            if data is None:
                peer.reset()
                return
            await peer.send(data)

    return script


def status(code: int, *headers: str, body: bytes = b"no") -> bytes:
    return ok(body, *headers, status=f"{code} X")


def refused(seconds: object) -> bytes:
    return status(429, f"Retry-After: {seconds}")


OK = ok(b'{"a":1}', "Content-Type: application/json")


async def under_way(server: Scripted, call: Coroutine) -> asyncio.Task:
    """Start a call and wait until the server has seen a request."""
    task = asyncio.create_task(call)
    while not server.seen:
        await asyncio.wait([task], timeout=0.01)
    return task


async def test_an_answer_carries_its_data_and_its_one_attempt():
    """CP-004, CP-059, HT-011"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url) as api:
        response = await api.get("/x", params={"q": "a b"})
        assert (response.data, response.ok, response.url) == ({"a": 1}, True, f"{server.url}/x?q=a%20b")
        [attempt] = response.attempts
        assert (attempt.number, attempt.status, attempt.sent, attempt.decision) == (1, 200, "yes", "done")
        assert attempt.timings is response.timings


async def test_a_client_needs_nothing_but_defaults():
    """CP-001, CP-002"""
    async with Scripted(answer(OK)) as server, AsyncClient() as api:
        assert (await api.request("GET", server.url)).status_code == 200


@pytest.mark.parametrize("verb", ["get", "head", "options", "post", "put", "patch", "delete"])
async def test_every_verb_sends_its_method(verb):
    """CP-059"""
    async with (
        Scripted(answer(status(204, body=b"").replace(b"Content-Length: 0\r\n", b""))) as server,
        AsyncClient(server.url) as api,
    ):
        assert (await getattr(api, verb)("/x")).data is None
        assert server.seen[0].line == f"{verb.upper()} /x HTTP/1.1"


async def test_the_clients_headers_go_with_every_request_and_the_requests_own_win():
    """CP-032, CP-061"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, headers={"X-Team": "t", "Accept": "a/b"}) as api:
        await api.get("/1", headers={"x-team": "u", "X-One": "1"})
        await api.get("/2")
        first, second = server.seen
        assert (first.all("X-Team"), first.all("X-One"), first.all("Accept")) == (["u"], ["1"], ["a/b"])
        assert (second.all("X-Team"), second.all("X-One"), second.all("User-Agent")) == (["t"], [], ["comity/0.1.0"])
        assert second.all("Accept-Encoding") == ["gzip, deflate"]


async def test_a_base_url_keeps_its_path():
    """CP-003"""
    async with Scripted(answer(OK)) as server, AsyncClient(f"{server.url}/v1/") as api:
        await api.get("/users?page=2")
        assert server.seen[0].target == "/v1/users?page=2"


async def test_secret_headers_of_a_client_stay_with_the_origin_of_its_base_url():
    headers = {"Authorization": "Bearer t", "X-API-Key": "k", "X-Team": "t"}
    async with (
        Scripted(answer(OK)) as home,
        Scripted(answer(OK)) as abroad,
        AsyncClient(home.url, headers=headers) as api,
    ):
        await api.get("/x")
        await api.get(f"{abroad.url}/x")
        assert (home.seen[0].all("authorization"), home.seen[0].all("x-api-key")) == (["Bearer t"], ["k"])
        assert (abroad.seen[0].all("authorization"), abroad.seen[0].all("x-api-key")) == ([], [])
        assert abroad.seen[0].all("x-team") == ["t"]


@pytest.mark.parametrize(
    ("answers", "sends", "code"),
    [
        ([status(500), status(500), OK], 3, 200),
        ([status(500)], 3, 500),
        ([status(400)], 1, 400),
        ([status(404)], 1, 404),
        ([status(408), OK], 2, 200),
        ([status(302, "Location: /y")], 1, 302),
        ([None, None, OK], 3, 200),
        ([refused(0), refused(0), OK], 3, 200),
    ],
)
async def test_what_is_sent_how_often(answers, sends, code):
    """CP-067, CP-068, CP-074, CP-075, CP-076, CP-077, PF-020, PF-021, PF-023, HT-017"""
    async with (
        Scripted(in_turn(*answers)) as server,
        AsyncClient(retry=TRIES, raise_for="never", learn_gap=False) as api,
    ):
        response = await api.get(server.url)
        assert (len(server.seen), response.status_code, len(response.attempts)) == (sends, code, sends)


async def test_a_history_tells_every_attempt():
    """HT-014, HT-015, HT-016"""
    async with Scripted(in_turn(None, status(500), OK)) as server, AsyncClient(retry=TRIES) as api:
        attempts = (await api.get(server.url)).attempts
        assert [(each.number, each.status, each.decision) for each in attempts] == [
            (1, None, "retry"),
            (2, 500, "retry"),
            (3, 200, "done"),
        ]
        assert attempts[0].error.startswith("ConnectionLost")


async def test_an_error_carries_the_history_too():
    """HT-018"""
    script = in_turn(None, refused(0), status(408))
    retry = Retry(attempts=3, refusals=0, backoff=QUICK)
    async with Scripted(script) as server, AsyncClient(retry=retry, learn_gap=False) as api:
        with pytest.raises(StatusError) as caught:
            await api.get(server.url)
        assert (caught.value.status_code, [each.status for each in caught.value.attempts]) == (408, [None, 429, 408])


@pytest.mark.parametrize(
    ("raise_for", "code", "raises"),
    [
        ("never", 500, False),
        ("error", 302, False),
        ("error", 400, True),
        ("non_2xx", 302, True),
        ("non_2xx", 204, False),
    ],
)
async def test_raise_for_says_which_answers_are_errors(raise_for, code, raises):
    """CP-067, CP-068, PF-023, HT-012"""
    async with Scripted(answer(status(code, body=b""))) as server, AsyncClient(retry=0, raise_for=raise_for) as api:
        if raises:
            with pytest.raises(StatusError):
                await api.get(server.url)
        else:
            assert (await api.get(server.url)).status_code == code
        assert (await api.get(server.url, raise_for="never")).status_code == code


async def test_status_decides_before_the_body_does():
    """CP-04"""
    html = status(503, "Content-Type: text/html", body=b"<html>")
    async with Scripted(in_turn(html, html, OK)) as server, AsyncClient(retry=TRIES) as api:
        assert (await api.get(server.url)).data == {"a": 1}
        assert len(server.seen) == 3
    wrong = status(403, "Content-Type: application/json", body=b"<html>")
    async with Scripted(answer(wrong)) as server, AsyncClient() as api:
        with pytest.raises(StatusError) as caught:
            await api.get(server.url)
        assert (caught.value.status_code, caught.value.body) == (403, "<html>")


async def test_a_body_that_is_no_json_is_not_asked_for_again():
    """CP-02"""
    async with Scripted(answer(ok(b"", "Content-Type: application/json"))) as server, AsyncClient(retry=TRIES) as api:
        response = await api.get(server.url)
        with pytest.raises(BadResponse) as caught:
            _ = response.data
        assert (caught.value.response.status_code, caught.value.response.content, len(server.seen)) == (200, b"", 1)
        assert caught.value.attempts == response.attempts


async def test_a_truncated_answer_is_asked_for_again_where_that_is_safe():
    """LM-01"""
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n12345"
    sends = 0

    async def script(peer: Peer) -> None:
        nonlocal sends
        await peer.request()
        sends += 1
        await peer.send(cut if sends == 1 else ok(b"x" * 20))

    async with Scripted(script) as server, AsyncClient(retry=Retry(retries=1, backoff=QUICK)) as api:
        assert (await api.get(server.url)).content == b"x" * 20
        assert sends == 2
        sends = 0
        with pytest.raises(BadResponse, match="5 of 20"):
            await api.get(server.url, retry=0)
        assert sends == 1


async def test_a_post_whose_fate_is_unknown_is_not_sent_again():
    """ID-01"""
    async with Scripted(in_turn(None)) as server, AsyncClient(retry=TRIES) as api:
        with pytest.raises(ConnectionLost, match="outcome is unknown") as caught:
            await api.post(server.url, json={"a": 1})
        assert (caught.value.sent, len(server.seen)) == ("yes", 1)


@pytest.mark.parametrize(("code", "sends"), [(503, 1), (504, 1), (429, 2)])
async def test_a_post_is_sent_again_after_a_refusal_only(code, sends):
    """ID-03, PF-019"""
    async with (
        Scripted(in_turn(status(code, "Retry-After: 0"), OK)) as server,
        AsyncClient(retry=TRIES, raise_for="never", learn_gap=False) as api,
    ):
        await api.post(server.url, json={"a": 1})
        assert len(server.seen) == sends


@pytest.mark.parametrize(
    "options", [{"idempotent": True}, {"retry": Retry(attempts=3, backoff=QUICK, idempotent="any")}]
)
async def test_a_post_declared_safe_is_sent_again(options):
    """PF-022, HT-027"""
    async with Scripted(in_turn(status(503), OK)) as server, AsyncClient(retry=TRIES) as api:
        assert (await api.post(server.url, content=b"x", **options)).status_code == 200


async def test_a_get_declared_unsafe_is_not():
    async with Scripted(in_turn(status(503), OK)) as server, AsyncClient(retry=TRIES, raise_for="never") as api:
        assert (await api.get(server.url, idempotent=False)).status_code == 503


async def test_a_key_stays_over_all_attempts_and_differs_between_calls():
    """ID-05"""
    async with Scripted(in_turn(status(503), status(503), OK)) as server, AsyncClient(retry=TRIES) as api:
        await api.post(server.url, json={}, idempotency_key=True)
        await api.post(server.url, json={}, idempotency_key=True)
        await api.post(server.url, json={}, idempotency_key="mine")
        keys = [seen.all("Idempotency-Key") for seen in server.seen]
        assert keys[0] == keys[1] == keys[2] != keys[3]
        assert keys[4] == ['"mine"']


async def test_every_attempt_carries_the_same_bytes():
    """BR-03, BR-05, PF-028"""
    async with Scripted(in_turn(status(500), status(500), OK)) as server, AsyncClient(retry=TRIES) as api:
        await api.put(server.url, json={"a": 1})
        assert len({seen.raw for seen in server.seen}) == 1
        seen = server.seen[0]
        assert (json.loads(seen.body), seen.all("content-type"), seen.all("content-length")) == (
            {"a": 1},
            ["application/json"],
            ["7"],
        )


async def test_a_stream_is_refused_before_anything_is_sent():
    """BR-01, CP-078"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url) as api:
        with pytest.raises(InvalidRequest, match="replayed"):
            await api.put("/x", content=(b for b in [b"1"]))  # type: ignore[arg-type]
        assert server.connections == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": 10},
        {"priority": -1},
        {"priority": 1.5},
        {"timeout": -1},
        {"deadline": "soon"},
        {"retry": -1},
        {"raise_for": "always"},
        {"cost": -1},
        {"headers": {"a b": "c"}},
        {"headers": {"X": "a\r\nY: b"}},
    ],
)
async def test_what_cannot_be_used_is_refused_at_once(wrong):
    """CP-060, CP-078, HI-01"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, retry=TRIES) as api:
        with pytest.raises((OptionsError, InvalidRequest)):
            await api.get("/x", **wrong)
        assert server.connections == 0


@pytest.mark.parametrize(
    "url", ["https://.../", "http://" + "a" * 64 + "/", "http://", "http:///x", "/relative", "ftp://h/"]
)
async def test_a_url_that_leads_nowhere_is_refused_without_a_lookup(url):
    """UH-03"""
    async with AsyncClient(retry=3) as api:
        with pytest.raises(InvalidRequest) as caught:
            await api.get(url)
        assert caught.value.attempts == ()


async def test_a_misspelt_option_names_the_nearest():
    """CP-065"""
    async with AsyncClient() as api:
        with pytest.raises(OptionsError, match="did you mean priority"):
            await api.get("http://127.0.0.1/", priorty=1)  # type: ignore[call-arg]
    with pytest.raises(OptionsError, match="did you mean concurrency"):
        AsyncClient(concurency=1)  # type: ignore[call-arg]
    with pytest.raises(OptionsError, match="did you mean base_url"):
        AsyncClient(baseurl="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"base_url": "api.example"}, "base_url"),
        ({"base_url": "http://h/x?a=1"}, "base_url"),
        ({"base_url": None}, "base_url"),
        ({"base_url": "http://k:S3CR@ho st:80"}, "base_url"),
        ({"base_url": "http://k:S3CR@[::1"}, "base_url"),
        ({"base_url": "http://k:S3CR@h:99999"}, "base_url"),
        ({"headers": {"X": "S3CR\n"}}, "headers"),
        ({"headers": {"Idempotency-Key": "S3CR"}}, "headers"),
        ({"raise_for": "errors"}, "raise_for"),
        ({"policy": {"rate": "1/s"}}, "policy"),
        ({"max_connections": 0}, "max_connections"),
        ({"hosts": {"http://h": Policy()}}, "hosts"),
    ],
)
def test_a_client_with_an_unusable_option_is_refused_naming_it(options, named):
    """CP-003, SC-05"""
    with pytest.raises(OptionsError) as caught:
        AsyncClient(**options)
    assert caught.value.option == named
    assert "S3CR" not in str(caught.value)


def test_keywords_override_the_parts_of_a_policy():
    api = AsyncClient(policy=Policy(concurrency=3, rate="5/s"), rate=None)
    rules = api._hosts.default
    assert (rules.concurrency, rules.rate) == (3, ())


async def test_hosts_have_rules_of_their_own():
    async with (
        Scripted(in_turn(status(500), OK)) as server,
        AsyncClient(retry=0, hosts={"127.0.0.1": {"retry": TRIES}}) as api,
    ):
        assert (await api.get(server.url)).status_code == 200


async def test_a_wait_longer_than_allowed_is_told_at_once_and_the_host_is_blocked():
    """PF-017, PF-018"""
    async with Scripted(answer(refused(3600))) as server, AsyncClient(raise_for="never") as api:
        with pytest.raises(RateLimited) as caught:
            await api.get(server.url)
        error = caught.value
        assert error.retry_after == pytest.approx(3600, abs=5)
        assert (error.status_code, error.body, len(error.attempts), error.attempts[0].retry_after) == (
            429,
            "no",
            1,
            3600,
        )
        with pytest.raises(HostBlocked) as blocked:
            await api.get(server.url)
        assert abs((blocked.value.until - error.until).total_seconds()) < 5
        assert len(server.seen) == 1


async def test_an_answer_tells_what_it_asked_to_wait():
    """CP-080"""
    async with Scripted(answer(status(503, "Retry-After: 7"))) as server, AsyncClient(retry=0) as api:
        with pytest.raises(StatusError) as caught:
            await api.get(server.url)
        assert (caught.value.retry_after, caught.value.retryable) == (7.0, True)


async def test_an_attempt_that_times_out_is_tried_again():
    """TO-03, SB-01, PF-025"""
    calls = 0

    async def script(peer: Peer) -> None:
        nonlocal calls
        while True:
            await peer.request()
            calls += 1
            if calls == 1:
                await peer.gone()
            await peer.send(OK)

    async with Scripted(script) as server, AsyncClient(retry=Retry(retries=1, backoff=QUICK)) as api:
        response = await api.get(server.url, timeout=0.1)
        assert [attempt.status for attempt in response.attempts] == [None, 200]


async def test_a_stalled_body_ends_in_a_timeout_after_its_attempts():
    """SB-01, CP-031"""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
        await peer.gone()

    async with Scripted(script) as server, AsyncClient(retry=Retry(retries=1, backoff=QUICK)) as api:
        with pytest.raises(TimedOut) as caught:
            await api.get(server.url, timeout=Timeout(idle=0.05))
        assert (caught.value.phase, len(caught.value.attempts)) == ("idle", 2)


async def test_the_clock_of_an_attempt_does_not_run_in_the_queue():
    """TO-01, PF-024, PX-03"""
    async with (
        Scripted(answer(OK)) as server,
        AsyncClient(server.url, concurrency=1, timeout=0.2, min_gap=0.06, retry=0) as api,
    ):
        answers = await asyncio.gather(*(api.get("/x") for _ in range(6)))
        assert max(each.timings.queue for each in answers) > 0.2


async def test_the_deadline_counts_the_queue():
    async with Scripted(hang) as server, AsyncClient(concurrency=1, retry=0) as api:
        running = await under_way(server, api.get(server.url, timeout=None))
        with pytest.raises(TimedOut) as caught:
            await api.get(server.url, deadline=0.05)
        assert (caught.value.phase, caught.value.sent, caught.value.attempts) == ("deadline", "no", ())
        running.cancel()
        await asyncio.wait([running])


async def test_the_deadline_ends_an_attempt_and_names_itself():
    async with Scripted(hang) as server, AsyncClient(retry=TRIES) as api:
        with pytest.raises(TimedOut) as caught:
            await api.get(server.url, deadline=0.1)
        assert (caught.value.phase, caught.value.seconds, len(caught.value.attempts)) == ("deadline", 0.1, 1)


async def test_expiry_in_the_queue_leaves_the_counters_exact():
    """CA-03"""
    async with Scripted(hang) as server, AsyncClient(concurrency=1, queue_timeout=0.05) as api:
        running = await under_way(server, api.get(server.url))
        waiting = await asyncio.gather(*(api.get(server.url) for _ in range(4)), return_exceptions=True)
        assert [type(each) for each in waiting] == [QueueTimeout] * 4
        assert (api.stats().queued, api.stats().running) == (0, 1)
        running.cancel()
        await asyncio.wait([running])
        assert (api.stats().queued, api.stats().running) == (0, 0)


async def test_a_timed_out_request_hands_its_slot_on():
    """PX-05"""

    async def script(peer: Peer) -> None:
        while (await peer.request()).target != "/hang":
            await peer.send(OK)
        await peer.gone()

    async with Scripted(script) as server, AsyncClient(server.url, concurrency=1, retry=0) as api:
        hung, *rest = await asyncio.gather(
            api.get("/hang", timeout=0.1), api.get("/b"), api.get("/c"), return_exceptions=True
        )
        assert isinstance(hung, TimedOut)
        assert [answer.status_code for answer in rest] == [200, 200]


async def test_no_more_sockets_are_open_than_may_run():
    """PX-01"""
    seen: dict[str, int] = {}

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.request()).target
            seen[target] = seen.get(target, 0) + 1
            await peer.send(ok(b"x" * 1024, "Retry-After: 0", status="429 X") if seen[target] == 1 else OK)

    async with Scripted(script) as server, AsyncClient(server.url, concurrency=2, learn_gap=False) as api:
        answers = await asyncio.gather(*(api.get(f"/{number}") for number in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert server.most_open <= 2


async def test_a_cancelled_call_ends_at_once_and_is_not_sent_again():
    """CP-079, PF-026, TO-03"""
    async with Scripted(hang) as server, AsyncClient(retry=TRIES) as api:
        task = await under_way(server, api.get(server.url))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda server: server.open == 0)
        assert (len(server.seen), api.stats().running) == (1, 0)


async def test_a_cancelled_wait_for_a_retry_ends_at_once():
    """CA-04, CP-079"""
    async with (
        Scripted(answer(refused(60))) as server,
        Scripted(answer(OK)) as other,
        AsyncClient(concurrency=1, retry=Retry(max_retry_after=120)) as api,
    ):
        task = asyncio.create_task(api.get(server.url))
        while not api.stats().hosts or not next(iter(api.stats().hosts.values())).paused_for:
            await asyncio.wait([task], timeout=0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(server.seen) == 1
        assert (await api.get(other.url)).status_code == 200


async def test_cancelled_waiters_are_gone_at_once():
    """PF-027, CA-05"""
    async with Scripted(hang) as server, AsyncClient(concurrency=1) as api:
        running = asyncio.create_task(api.get(server.url))
        waiting = [asyncio.create_task(api.get(server.url)) for _ in range(3)]
        while api.stats().queued < 3:
            await asyncio.wait([running], timeout=0.01)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert (api.stats().queued, api.stats().running) == (0, 1)
        running.cancel()
        await asyncio.wait([running])


async def test_random_cancels_leave_nothing_behind():
    """CA-01"""
    dice = random.Random(7)
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, concurrency=5, retry=TRIES) as api:
        for _ in range(20):
            tasks = [asyncio.create_task(api.get("/x")) for _ in range(20)]
            for task in tasks:
                for _ in range(dice.randrange(4)):
                    await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(5):
            answers = await asyncio.gather(*(api.get("/x") for _ in range(20)))
        assert {each.status_code for each in answers} == {200}
        assert (api.stats().queued, api.stats().running) == (0, 0)
        await api.aclose()
        await server.until(lambda server: server.open == 0)


async def test_thousands_of_queued_requests_need_few_sockets():
    """CP-087"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, concurrency=4) as api:
        await asyncio.gather(*(api.get("/x") for _ in range(2000)))
        assert (len(server.seen), server.most_open) == (2000, 4)


async def test_closing_refuses_what_waits_and_lets_what_runs_finish():
    """CP-004"""
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await release.wait()
        await peer.send(OK)
        await peer.gone()

    async with Scripted(script) as server:
        api = AsyncClient(server.url, concurrency=1)
        running = await under_way(server, api.get("/x"))
        waiting = asyncio.create_task(api.get("/x"))
        while not api.stats().queued:
            await asyncio.wait([waiting], timeout=0.01)
        closing = [asyncio.create_task(api.aclose()) for _ in range(2)]
        with pytest.raises(ClientClosed):
            await waiting
        assert not any(task.done() for task in closing)
        release.set()
        assert (await running).status_code == 200
        await asyncio.gather(*closing)
        await api.aclose()
        with pytest.raises(ClientClosed):
            await api.get("/x")
        await server.until(lambda server: server.open == 0)


async def test_closing_is_quick_when_a_server_never_lets_go():
    """PX-06"""

    async def script(peer: Peer) -> None:
        for _ in range(3):
            await peer.request()
            await peer.send(status(503))
        await asyncio.Event().wait()

    async with Scripted(script) as server:
        api = AsyncClient(server.url, retry=Retry(retries=2, backoff=QUICK))
        with pytest.raises(StatusError):
            await api.get("/x")
        async with asyncio.timeout(2):
            await api.aclose()


async def test_stats_tell_what_waits_and_runs():
    """CP-072, CP-073"""
    async with Scripted(hang) as server, AsyncClient(server.url, concurrency=2) as api:
        tasks = [asyncio.create_task(api.get("/x")) for _ in range(5)]
        while api.stats().queued < 3:
            await asyncio.wait(tasks, timeout=0.01)
        stats = api.stats()
        assert (stats.queued, stats.running, stats.concurrency) == (3, 2, 2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_events_tell_the_steps():
    """PF-005"""
    events = []
    async with (
        Scripted(in_turn(status(500), OK)) as server,
        AsyncClient(server.url, retry=TRIES, on_event=events.append) as api,
    ):
        await api.get("/x")
    assert [each.type for each in events] == ["started", "finished", "retrying", "started", "finished"]
    assert {each.host for each in events} == {f"127.0.0.1:{server.port}"}


async def secrets_of(calls: Iterable, capture: pytest.LogCaptureFixture) -> str:
    """Return everything that some failing calls show."""
    shown = []
    for call in calls:
        try:
            await call
        except RequestError as error:
            shown += [str(error), repr(error), traceback.format_exc(), repr(error.request), repr(error.attempts)]
    return "\n".join([*shown, capture.text])


async def test_no_error_shows_a_secret(caplog):
    """SC-01, SC-03, SC-04"""
    caplog.set_level(logging.DEBUG)
    secret = "u:PW1@127.0.0.1"
    headers = {"Authorization": "Bearer TKN", "X-API-Key": "TKN"}
    async with Scripted(hang) as gone:
        closed = gone.url.replace("127.0.0.1", secret)
    events = []
    async with (
        Scripted(answer(status(403, "Set-Cookie: sid=COOKIE"))) as forbidding,
        Scripted(hang) as hanging,
        AsyncClient(headers=headers, retry=TRIES, on_event=events.append) as api,
    ):
        query = "?api_key=SECRET123&x=1"
        shown = await secrets_of(
            [
                api.get(forbidding.url.replace("127.0.0.1", secret) + query, expose_cookies=True),
                api.get(closed + query),
                api.get(hanging.url.replace("127.0.0.1", secret) + query, timeout=0.05),
            ],
            caplog,
        )
        shown += repr(api) + repr(events)
    assert not [each for each in ("SECRET123", "PW1", "TKN", "COOKIE") if each in shown]
    assert shown.count("x=1") > 5
    assert {"403", "ConnectFailed", "TimedOut"} <= {
        word for word in ("403", "ConnectFailed", "TimedOut") if word in shown
    }


async def test_a_failed_connection_is_not_a_status():
    """CP-081, HT-013"""
    async with Scripted(hang) as server:
        url = server.url
    async with AsyncClient(retry=Retry(retries=1, backoff=QUICK)) as api:
        with pytest.raises(ConnectFailed) as caught:
            await api.post(url, content=b"x")
        assert len(caught.value.attempts) == 2
        assert not isinstance(caught.value, StatusError)
