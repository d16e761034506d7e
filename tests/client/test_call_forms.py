"""What every verb of both clients takes: the same URLs and the same options."""

from __future__ import annotations

import asyncio
import pickle
from datetime import timedelta

import pytest
from yarl import URL

import comity
from comity.client.request import Request
from comity.errors import InvalidRequest
from comity.policy.options import Policy
from comity.testing import Answer, ScriptedTransport, Upstream, VirtualClock

VERBS = ["get", "head", "options", "post", "put", "patch", "delete"]
HOME = "http://api.example"
OPTIONS = {"params": {"a": "1"}, "headers": {"X-A": "b"}, "content": b"c", "priority": 1, "timeout": 5, "retry": 0}


class Choosy(ScriptedTransport):
    """Knows one extension."""

    extensions = frozenset({"known"})


def described(request: Request) -> tuple[object, ...]:
    return request.method, request.url, request.headers["x-a"], request.content


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("url", [f"{HOME}/x", URL(f"{HOME}/x"), URL("/x")], ids=["text", "object", "relative object"])
async def test_a_verb_takes_what_request_takes(verb, url):
    """HT-001..004"""
    watched = ScriptedTransport(200, 200)
    async with comity.AsyncClient(HOME, transport=watched) as api:
        await getattr(api, verb)(url, **OPTIONS)
        await api.request(verb, url, **OPTIONS)
    assert [described(each) for each in watched.requests] == [(verb.upper(), f"{HOME}/x?a=1", "b", b"c")] * 2


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_blocks_takes_what_request_takes(verb):
    """HT-001..004"""
    watched = ScriptedTransport(200, 200)
    with comity.Client(HOME, transport=watched) as api:
        getattr(api, verb)(URL("/x"), **OPTIONS)
        api.request(verb, "/x", **OPTIONS)
    assert [described(each) for each in watched.requests] == [(verb.upper(), f"{HOME}/x?a=1", "b", b"c")] * 2


async def test_a_stream_takes_the_urls_of_the_verbs():
    watched = ScriptedTransport(200, 200)
    async with comity.AsyncClient(HOME, transport=watched) as api:
        for url in (URL("/x"), URL(f"{HOME}/x")):
            async with api.stream("GET", url):
                pass
    assert [each.url for each in watched.requests] == [f"{HOME}/x"] * 2


def test_a_stream_that_blocks_takes_the_urls_of_the_verbs():
    watched = ScriptedTransport(200)
    with comity.Client(HOME, transport=watched) as api, api.stream("GET", URL("/x")):
        assert watched.requests[0].url == f"{HOME}/x"


@pytest.mark.parametrize("url", [None, 5, b"http://api.example/"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(InvalidRequest, match=r"url is (a|None)"):
        Request("GET", url)


async def test_extensions_reach_a_transport_of_ones_own_unchanged():
    """HT-006, CP-064"""
    watched, value = ScriptedTransport(200, 200), object()
    async with comity.AsyncClient(HOME, transport=watched) as api:
        await api.get("/", extensions={"socket": value})
    assert dict(watched.requests[0].extensions) == {"socket": value}


def test_extensions_outlive_pickling_and_cannot_be_changed():
    request = pickle.loads(pickle.dumps(Request("GET", HOME, extensions={"a": 1})))
    assert request.extensions == {"a": 1}
    with pytest.raises(TypeError):
        request.extensions["b"] = 2


async def test_the_default_transport_refuses_an_extension_and_sends_nothing():
    """HT-006"""
    with Upstream() as up:
        async with comity.AsyncClient(up.url) as api:
            with pytest.raises(InvalidRequest, match="'socket'"):
                await api.get("/", extensions={"socket": 1})
            assert (await api.get("/status/200")).status_code == 200
        assert len(up.log) == 1


def test_extensions_that_a_transport_does_not_know_are_refused_before_their_turn_comes():
    """HT-006"""
    transport, clock = Choosy(Answer(after="5s"), 200), VirtualClock()

    async def ask() -> None:
        async with comity.AsyncClient(HOME, transport=transport, clock=clock, concurrency=1) as api:
            first = asyncio.create_task(api.get("/"))
            await asyncio.sleep(1)
            with pytest.raises(InvalidRequest, match="extensions 'other' mean nothing"):
                await api.get("/", extensions={"known": 1, "other": 2})
            assert clock.now() - began == 1_000_000_000
            await first
            await api.get("/", extensions={"known": 1})

    began = clock.now()
    clock.run(ask())
    assert len(transport.requests) == 2


def test_threads_are_refused_the_same_extensions():
    """HT-006"""
    transport = Choosy(200)
    with comity.Client(HOME, transport=transport) as api:
        with pytest.raises(InvalidRequest, match="'other'"):
            api.get("/", extensions={"other": 2})
        assert api.get("/", extensions={"known": 1}).status_code == 200
    assert len(transport.requests) == 1


@pytest.mark.parametrize("extensions", [5, ["a"], {1: 2}])
def test_extensions_that_are_no_mapping_of_names_are_refused(extensions):
    with pytest.raises(InvalidRequest, match="extensions is a"):
        Request("GET", HOME, extensions=extensions)


@pytest.mark.parametrize("options", [{}, {"timeout": 5}, {"timeout": None}, {"deadline": 9}])
async def test_timings_are_there_with_and_without_limits(options):
    """HT-009..010"""
    with Upstream() as up:
        async with comity.AsyncClient(up.url) as api:
            answer = await api.get("/status/200", **options)
    assert answer.timings.total > 0


def test_a_wait_over_the_queue_limit_fails_at_once_and_sends_nothing():
    """TO-04"""
    clock, watched = VirtualClock(), ScriptedTransport(200, 200)

    async def main() -> None:
        async with comity.AsyncClient(HOME, transport=watched, clock=clock, rate="1/5s", queue_timeout=0.5) as api:
            await api.get("/")
            began = clock.now()
            with pytest.raises(comity.QueueTimeout):
                await api.get("/")
            assert clock.now() - began <= 600_000_000

    clock.run(main())
    assert len(watched.requests) == 1


@pytest.mark.parametrize("gap", ["300ms", 0.3, timedelta(milliseconds=300)])
def test_a_duration_waits_the_same_however_it_is_written(gap):
    """TO-05"""
    clock, watched, starts = VirtualClock(), ScriptedTransport(200, 200), []

    async def main() -> None:
        async with comity.AsyncClient(HOME, transport=watched, clock=clock, min_gap=gap) as api:
            for _ in range(2):
                await api.get("/")
                starts.append(clock.now())

    clock.run(main())
    assert 300_000_000 <= starts[1] - starts[0] <= 301_000_000


def test_a_bare_number_as_text_is_seconds_and_another_unit_is_refused_by_name():
    """TO-05"""
    assert Policy(min_gap="300").min_gap == 300.0
    with pytest.raises(comity.OptionsError, match=r"min_gap.*5 parsecs"):
        Policy(min_gap="5 parsecs")
