"""AsyncClient: what is sent again, how often, and what the attempts tell."""

from __future__ import annotations

import asyncio
import json

import pytest

from comity.client.async_client import AsyncClient
from comity.errors import BadResponse, ConnectFailed, ConnectionLost, HostBlocked, RateLimited, StatusError, TimedOut
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.policy.timeouts import Timeout
from tests.client.scripted import (
    OK,
    Peer,
    Script,
    Scripted,
    answer,
    hang,
    in_turn,
    ok,
    packed,
    refused,
    status,
    under_way,
)

QUICK = Backoff(base=0.001, cap=0.001)
TRIES = Retry(attempts=3, backoff=QUICK)


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
        AsyncClient(retry=TRIES, raise_for="never", learn=None) as api,
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
    async with Scripted(script) as server, AsyncClient(retry=retry, learn=None) as api:
        with pytest.raises(StatusError) as caught:
            await api.get(server.url)
        assert (caught.value.status_code, [each.status for each in caught.value.attempts]) == (408, [None, 429, 408])


BROKEN = {
    "hangs": (b"Content-Length: 10", b"ab", False),
    "drips nothing": (b"Content-Length: 10", b"", False),
    "cut": (b"Content-Length: 10", b"ab", True),
    "cut between chunks": (b"Transfer-Encoding: chunked", b"2\r\nab\r\n", True),
    "no chunk": (b"Transfer-Encoding: chunked", b"zz\r\n", False),
    "no gzip": (b"Content-Encoding: gzip\r\nContent-Length: 2", b"ok", False),
    "cut gzip": (b"Content-Encoding: gzip\r\nContent-Length: 20", packed(b"a" * 99)[:20], False),
    "too large": (b"Content-Length: 999999999", b"ab", False),
}


def broken(code: int, how: str, *fields: bytes, apart: bool = False) -> Script:
    """Answer with a sound head and a broken body, in one piece or apart."""
    framing, body, closes = BROKEN[how]
    head = b"\r\n".join([b"HTTP/1.1 %d X" % code, framing, *fields, b"", b""])

    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in (head, body) if apart else (head + body,):
            await peer.send(piece)
            await asyncio.sleep(0)
        if not closes:
            await peer.gone()

    return script


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("how", BROKEN)
async def test_a_refusal_counts_whatever_becomes_of_its_body(how, apart):
    """PF-017, PF-018, RA-06: the wait it names is longer than allowed, so the host is blocked."""
    refusal = broken(429, how, b"Retry-After: 100", apart=apart)
    async with Scripted(refusal) as server, AsyncClient(server.url, timeout=0.5, raise_for="never") as api:
        with pytest.raises(RateLimited) as caught:
            await api.get("/x")
        error = caught.value
        assert (error.status_code, error.response.content, len(server.seen)) == (429, b"", 1)
        assert 95 < error.retry_after <= 100
        assert (error.attempts[0].status, error.attempts[0].retry_after) == (429, 100)
        assert error.attempts[0].error.startswith(("TimedOut", "BadResponse"))
        with pytest.raises(HostBlocked):
            await api.get("/other")
        assert len(server.seen) == 1


@pytest.mark.parametrize("how", ["hangs", "cut", "no gzip"])
@pytest.mark.parametrize("code", [408, 425, 429, 503])
async def test_a_status_that_asks_for_another_try_gets_it_whatever_becomes_of_its_body(code, how):
    """RA-10"""
    left = [broken(code, how, b"Retry-After: 0.1")]

    async def script(peer: Peer) -> None:
        await (left.pop() if left else answer(OK))(peer)

    async with Scripted(script) as server, AsyncClient(server.url, timeout=0.5, learn=None) as api:
        first, second = (await api.get("/x")).attempts
        assert (first.status, first.retry_after, first.decision, second.status) == (code, 0.1, "retry", 200)
        assert first.timings.download + second.waited >= 0.09


@pytest.mark.parametrize(("how", "kind"), [("cut", BadResponse), ("no gzip", BadResponse), ("hangs", TimedOut)])
async def test_a_broken_body_is_the_error_of_what_is_not_sent_again(how, kind):
    async with Scripted(broken(503, how)) as server, AsyncClient(timeout=0.5, raise_for="never") as api:
        with pytest.raises(kind) as caught:
            await api.post(server.url)
        assert ([each.status for each in caught.value.attempts], len(server.seen)) == ([503], 1)
        if kind is BadResponse:
            assert (caught.value.response.status_code, caught.value.response.content) == (503, b"")


async def test_a_broken_body_of_another_status_tells_nothing_about_the_host():
    async with Scripted(broken(404, "no gzip", b"Retry-After: 100")) as server, AsyncClient() as api:
        with pytest.raises(BadResponse) as caught:
            await api.get(server.url)
        assert caught.value.response.status_code == 404
        (host,) = api.stats().hosts.values()
        assert (host.paused_for, host.blocked_for) == (0, 0)


async def test_others_wait_from_the_head_of_a_refusal_on():
    """PF-014: not only when its body, which drips, is there at last."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 429 X\r\nRetry-After: 30\r\nContent-Length: 2\r\n\r\na")
        await go.wait()
        await peer.send(b"b")
        await peer.gone()

    async with Scripted(script) as server, AsyncClient(server.url, raise_for="never") as api:
        first = await under_way(server, api.get("/x", retry=0))
        while not (host := next(iter(api.stats().hosts.values()))).paused_for:
            await asyncio.wait([first], timeout=0.01)
        assert (host.running, host.refused) == (1, 0)
        with pytest.raises(HostBlocked):
            await api.get("/other", deadline=1)
        go.set()
        response = await first
        assert (response.status_code, response.content, response.retry_after, len(server.seen)) == (429, b"ab", 30, 1)
        (host,) = api.stats().hosts.values()
        assert (host.running, host.refused) == (0, 1)
        assert host.paused_for <= 30


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
    """LM-01, BR-08"""
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
        AsyncClient(retry=TRIES, raise_for="never", learn=None) as api,
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
        response = await api.get(server.url, timeout=0.5)
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


async def test_a_failed_connection_is_not_a_status():
    """CP-081, HT-013"""
    async with Scripted(hang) as server:
        url = server.url
    async with AsyncClient(retry=Retry(retries=1, backoff=QUICK)) as api:
        with pytest.raises(ConnectFailed) as caught:
            await api.post(url, content=b"x")
        assert len(caught.value.attempts) == 2
        assert not isinstance(caught.value, StatusError)


async def test_a_plain_function_is_a_retry_of_its_own():
    """HT-026, HT-029"""
    seen = []

    def waits(info):
        seen.append((info.index, info.status))
        return 0.001 if info.index < 4 else None

    async with Scripted(answer(status(503))) as server, AsyncClient(server.url, retry=waits, raise_for="never") as api:
        response = await api.get("/x")
        assert (len(response.attempts), seen) == (5, [(index, 503) for index in range(5)])
        seen.clear()
        await api.get("/x", retry=lambda info: None)
        assert (len(server.seen), seen) == (6, [])
