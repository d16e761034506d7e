"""Redirects: where an answer leads, what goes along, and what is refused."""

from __future__ import annotations

import asyncio

import pytest

from comity.client import address
from comity.client.async_client import AsyncClient
from comity.client.headers import Headers
from comity.client.redirects import Trail, resolve
from comity.client.request import Request
from comity.client.response import Response
from comity.errors import (
    ConnectFailed,
    HostBlocked,
    InvalidRequest,
    OptionsError,
    RateLimited,
    RedirectRefused,
    StatusError,
    TimedOut,
)
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.testing import Answer, ScriptedTransport, VirtualClock
from tests.client.scripted import OK, Scripted, answer, hang, in_turn, refused, status

QUICK = Backoff(base=0.001, cap=0.001)
BASE = address.parse("http://a/b/c/d;p?q")


def to(where: str, code: int = 302, *headers: str) -> bytes:
    return status(code, f"Location: {where}", *headers)


def led(request: Request, location: str, code: int = 302) -> Request:
    """Return what follows an answer to `request`."""
    return Trail(request, 10).next(Response(code, Headers([("Location", location)]), b"", request=request))


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q"),
        ("g?y#s", "http://a/b/c/g?y"),
        (";x", "http://a/b/c/;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("http://h/x/../y?a=b#c", "http://h/y?a=b"),
        ("/s?k=a%40b%2Fc%3D", "http://a/s?k=a%40b%2Fc%3D"),
        ("/%7e%2E/%2e%2e/b//c", "http://a/%7e%2E/%2e%2e/b//c"),
        ("/\\evil/x", "http://a/\\evil/x"),
    ],
)
def test_a_reference_is_resolved_as_the_standard_says_and_else_left_alone(reference, url):
    """PE-03 (RFC 3986 section 5.4)"""
    assert resolve(BASE, reference) == url


@pytest.mark.parametrize(
    ("code", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (301, "PUT", "PUT"),
        (302, "DELETE", "DELETE"),
        (302, "HEAD", "HEAD"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "DELETE", "GET"),
        (303, "GET", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "PATCH", "PATCH"),
    ],
)
def test_the_status_says_which_method_follows_and_a_body_goes_with_its_method(code, method, then):
    content = None if method in {"GET", "HEAD", "DELETE"} else b"body"
    request = Request(
        method,
        "http://h/a",
        content=content,
        headers={"Content-Type": "x/y", "X-T": "t"},
        idempotency_key="k",
        idempotent=True,
    )
    onward = led(request, "/b", code)
    same = method == then and not (code == 303 and method != "HEAD")
    assert (onward.method, onward.url, onward.headers["x-t"]) == (then, "http://h/b", "t")
    assert onward.content == (content if same else None)
    assert ("content-type" in onward.headers, onward.keyed) == (same, same)
    assert onward.idempotent is (True if method == then else None)


@pytest.mark.parametrize(
    "place", ["http://h:81/", "https://h/", "http://other/", "//other/x", "http://h.other/", "http://sub.h/"]
)
def test_no_secret_goes_to_another_origin(place):
    """RD-01, RD-03, RD-05"""
    secrets = dict.fromkeys(("Authorization", "Cookie", "X-API-Key", "Api-Key", "X-Auth-Token", "Host"), "S")
    request = Request("GET", "http://h/a", headers={**secrets, "Host": "h", "X-Trace": "t", "Accept": "a/b"})
    assert led(request, place).headers == Headers([("X-Trace", "t"), ("Accept", "a/b")])
    assert led(request, "/b").headers == request.headers


def test_what_was_dropped_does_not_come_back_with_the_origin():
    trail = Trail(Request("GET", "http://u:p@h/a"), 10)
    request = Request("GET", "http://u:p@h/a")
    for place in ("http://evil/", "http://h/b"):
        request = trail.next(Response(302, Headers([("Location", place)]), b"", request=request))
    assert (request.url, "authorization" in request.headers) == ("http://h/b", False)


def test_a_server_hands_out_no_credentials():
    onward = led(Request("GET", "http://h/a"), "http://u:p@h/b")
    assert (onward.url, onward.address.userinfo, "authorization" in onward.headers) == ("http://h/b", b"", False)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("http://h/b", "from https to http"),
        ("https://h/a", "in a circle"),
        ("#part", "in a circle"),
        ("ftp://h/", "unsupported scheme"),
        ("javascript:alert(1)", "no host"),
        ("https://", "no host"),
        ("https://h:99999/", "unusable port"),
        ("/a\x00b", "control character"),
    ],
)
def test_a_place_that_may_not_be_gone_to_is_refused_with_the_reason(place, why):
    with pytest.raises(RedirectRefused, match=why) as caught:
        led(Request("GET", "https://h/a"), place)
    assert caught.value.response.status_code == 302


def test_two_places_are_none():
    request = Request("GET", "http://h/a")
    headers = Headers([("Location", "/b"), ("Location", "/c")])
    with pytest.raises(RedirectRefused, match="several places"):
        Trail(request, 10).next(Response(302, headers, b"", request=request))


def test_a_refusal_shows_no_secret():
    """SC-01"""
    with pytest.raises(RedirectRefused) as caught:
        led(Request("GET", "https://h/a?token=SEC"), "http://u:SEC@h/?api_key=SEC&x=1")
    assert "SEC" not in str(caught.value)
    assert "x=1" in str(caught.value)


async def test_redirects_are_followed_only_when_asked():
    """CP-064, CP-068"""
    async with Scripted(in_turn(to("/b"), to("/b"), OK, to("/b"))) as server:
        async with AsyncClient(server.url) as api:
            assert (await api.get("/a")).status_code == 302
            response = await api.get("/a", follow_redirects=True)
            assert (response.status_code, response.url, len(server.seen)) == (200, f"{server.url}/b", 3)
        async with AsyncClient(server.url, follow_redirects=True) as api:
            assert (await api.get("/a", follow_redirects=False)).headers["location"] == "/b"


async def test_the_answer_lists_the_ones_before_and_the_attempts_of_each():
    script = in_turn(to("/b"), status(503), to("/c", 307), OK)
    async with (
        Scripted(script) as server,
        AsyncClient(server.url, follow_redirects=True, retry=Retry(backoff=QUICK)) as api,
    ):
        response = await api.get("/a")
        assert [each.url.removeprefix(server.url) for each in (*response.history, response)] == ["/a", "/b", "/c"]
        assert [[each.status for each in one.attempts] for one in response.history] == [[302], [503, 307]]
        assert [(each.number, each.status) for each in response.attempts] == [(1, 200)]


async def test_a_location_is_sent_byte_for_byte():
    """PE-03"""
    async with (
        Scripted(in_turn(to("/s?k=a%40b%2Fc%3D#part"), OK)) as server,
        AsyncClient(follow_redirects=True) as api,
    ):
        await api.get(server.url)
        assert server.seen[1].target == "/s?k=a%40b%2Fc%3D"


async def test_secrets_stay_at_their_port():
    """RD-01, RD-03, RD-05, RD-07"""
    own = {"X-API-Key": "k1", "Api-Key": "k2", "X-Trace": "t", "Proxy-Authorization": "Basic cHJveHk6cHc="}
    async with Scripted(answer(OK)) as away, Scripted(in_turn(to("/b"), to(f"{away.url}/c"))) as home:
        for base in (home.url, ""):
            async with AsyncClient(base, headers=own, follow_redirects=True) as api:
                given = {"Authorization": "Bearer t", "Cookie": "sid=1", "Proxy-Authorization": "Basic eA=="}
                await api.get(f"{home.url}/a", headers=given)
        for seen in home.seen:
            assert (seen.all("cookie"), seen.all("authorization"), seen.all("x-api-key")) == (
                ["sid=1"],
                ["Bearer t"],
                ["k1"],
            )
        assert [each.target for each in home.seen] == ["/a", "/b", "/a"]
        for seen in away.seen:
            names = {name.lower() for name, _ in seen.headers}
            assert not names & {"cookie", "authorization", "x-api-key", "api-key"}
            assert seen.all("x-trace") == ["t"]
        assert not any(seen.all("proxy-authorization") for seen in (*home.seen, *away.seen))


def test_every_hop_waits_for_its_own_hosts_limiter_and_holds_no_other_slot():
    """One slot each: were it kept over the hop, two calls that lead to each other's host would wait for ever."""
    first: list[str] = []

    def script(request: Request) -> Answer:
        first.append(request.url)
        other = "http://b/" if request.address.origin.host == "a" else "http://a/"
        if request.address.target == "/":
            return Answer(200, after=1.0)
        return Answer(302, headers={"Location": other}, after=1.0)

    clock = VirtualClock()

    async def use() -> float:
        began = clock.now()
        transport = ScriptedTransport(script)
        async with AsyncClient(transport=transport, clock=clock, concurrency=1, follow_redirects=True) as api:
            await asyncio.gather(api.get("http://a/x"), api.get("http://b/x"))
            stats = api.stats()
            assert set(stats.hosts) == {"a", "b"}
        return (clock.now() - began) / 1e9

    assert clock.run(use()) == pytest.approx(2.0)
    assert sorted(first) == ["http://a/", "http://a/x", "http://b/", "http://b/x"]


def test_a_deadline_covers_all_hops():
    clock = VirtualClock()
    places = [f"/{number}" for number in range(20)]

    def script(request: Request) -> Answer:
        return Answer(302, headers={"Location": places.pop()}, after=1.0)

    async def use() -> TimedOut:
        transport = ScriptedTransport(script)
        async with AsyncClient("http://h", transport=transport, clock=clock, follow_redirects=True) as api:
            with pytest.raises(TimedOut) as caught:
                await api.get("/x", deadline=3.5, max_redirects=19)
            return caught.value

    error = clock.run(use())
    assert (error.phase, error.seconds, len(error.history)) == ("deadline", 3.5, 3)


@pytest.mark.parametrize(("most", "raises"), [(1, True), (2, False), (0, True)])
async def test_a_chain_longer_than_allowed_is_refused(most, raises):
    async with Scripted(in_turn(to("/1"), to("/2"), OK)) as server, AsyncClient(server.url) as api:
        call = api.get("/0", follow_redirects=True, max_redirects=most, raise_for="never")
        if not raises:
            assert (await call).status_code == 200
            return
        with pytest.raises(RedirectRefused, match=f"max_redirects={most} are used up") as caught:
            await call
        assert (len(caught.value.history), len(server.seen), len(caught.value.attempts)) == (most, most + 1, 1)


async def test_https_is_not_left_for_http_whatever_answers_are_to_be_raised():
    transport = ScriptedTransport(Answer(301, headers={"Location": "http://h/"}))
    async with AsyncClient(transport=transport, follow_redirects=True, raise_for="never") as api:
        with pytest.raises(RedirectRefused, match="from https to http") as caught:
            await api.get("https://h/")
        assert (len(transport.requests), caught.value.retryable) == (1, False)


async def test_a_circle_ends_when_it_closes():
    async with Scripted(in_turn(to("/b"), to("/a"), OK)) as server, AsyncClient(follow_redirects=True) as api:
        with pytest.raises(RedirectRefused, match="circle"):
            await api.get(f"{server.url}/a")
        assert len(server.seen) == 2


@pytest.mark.parametrize("code", [300, 304, 305, 302])
async def test_an_answer_that_leads_nowhere_is_the_answer(code):
    raw = status(code, *(["Location: /x"] if code != 302 else []), body=b"")
    async with Scripted(answer(raw)) as server, AsyncClient(follow_redirects=True) as api:
        response = await api.get(server.url)
        assert (response.status_code, response.history, len(server.seen)) == (code, (), 1)


async def test_raise_for_speaks_of_the_last_answer_alone():
    async with Scripted(in_turn(to("/b"), status(404))) as server, AsyncClient(follow_redirects=True) as api:
        with pytest.raises(StatusError) as caught:
            await api.get(server.url, raise_for="non_2xx")
        assert (caught.value.status_code, [each.status_code for each in caught.value.history]) == (404, [302])


async def test_a_hop_that_fails_tells_what_came_before():
    async with Scripted(hang) as gone:
        closed = gone.url
    redirect = to(f"{closed}/x", 302, "Set-Cookie: sid=COOKIE")
    async with Scripted(answer(redirect)) as server, AsyncClient(follow_redirects=True, retry=0) as api:
        with pytest.raises(ConnectFailed) as caught:
            await api.get(server.url, expose_cookies=True)
        [before] = caught.value.history
        assert (before.status_code, before.headers["set-cookie"], len(caught.value.attempts)) == (302, "***", 1)


async def test_a_post_goes_on_as_the_standard_says():
    async with (
        Scripted(in_turn(to("/b", 307), to("/c", 303), OK)) as server,
        AsyncClient(server.url, follow_redirects=True) as api,
    ):
        await api.post("/a", json={"a": 1})
        first, second, third = server.seen
        assert (second.line, second.body, second.all("content-type")) == (
            "POST /b HTTP/1.1",
            first.body,
            ["application/json"],
        )
        assert (third.line, third.body, third.all("content-type"), third.all("content-length")) == (
            "GET /c HTTP/1.1",
            b"",
            [],
            [],
        )


async def test_a_body_that_cannot_be_sent_again_is_refused_before_the_first_hop():
    """BR-01"""
    async with Scripted(answer(to("/b", 307))) as server, AsyncClient(follow_redirects=True, retry=0) as api:
        with pytest.raises(InvalidRequest, match="replayed"):
            await api.put(server.url, content=(b for b in [b"1"]))  # type: ignore[arg-type]
        assert server.connections == 0


def test_a_redirect_that_asks_to_wait_is_followed_after_that():
    """RFC 9110 section 10.2.3"""
    clock = VirtualClock()

    async def use(**options: object) -> float:
        later = Answer(302, headers={"Location": "/b", "Retry-After": "7"})
        transport = ScriptedTransport(later, 200)
        began = clock.now()
        async with AsyncClient("http://h", transport=transport, clock=clock, follow_redirects=True) as api:
            await api.get("/a", **options)
        return (clock.now() - began) / 1e9

    assert clock.run(use()) == pytest.approx(7.0)
    for options in ({"deadline": 5}, {"retry": Retry(max_retry_after=5)}):
        with pytest.raises(RedirectRefused, match="longer than this call may"):
            clock.run(use(**options))


async def test_a_host_that_blocks_stops_a_hop_to_it():
    async with (
        Scripted(answer(refused(3600))) as busy,
        Scripted(answer(to(f"{busy.url}/x"))) as server,
        AsyncClient(follow_redirects=True, hosts={f"127.0.0.1:{server.port}": {}}) as api,
    ):
        with pytest.raises(RateLimited):
            await api.get(server.url)
        with pytest.raises(HostBlocked) as caught:
            await api.get(server.url)
        assert (len(busy.seen), len(server.seen), len(caught.value.history)) == (1, 2, 1)


@pytest.mark.parametrize("wrong", [{"follow_redirects": 1}, {"max_redirects": -1}, {"max_redirects": "x"}])
async def test_an_unusable_option_is_named(wrong):
    with pytest.raises(OptionsError) as caught:
        AsyncClient(**wrong)
    assert caught.value.option in wrong
    async with AsyncClient() as api:
        with pytest.raises(OptionsError):
            await api.get("http://127.0.0.1:9/", **wrong)
