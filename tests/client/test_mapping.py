"""AsyncClient.map: many requests, in bounded memory; virtual time unless the wire itself is meant."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from yarl import URL

from comity.client.async_client import AsyncClient
from comity.errors import BadResponse, ClientClosed, ConnectFailed, InvalidRequest, OptionsError, StatusError
from comity.testing.scripted_transport import Answer, ScriptedTransport
from tests.client.scripted import OK, Scripted, answer, hang


def number(request):
    return int(request.url.rpartition("/")[2])


def server(clock, script=lambda n: 200, **options):
    """Return a client whose every request number n is answered by script(n)."""
    transport = ScriptedTransport(lambda request: script(number(request)))
    return AsyncClient("http://h", transport=transport, clock=clock, **{"retry": 0, "concurrency": 2, **options})


def targets(count, read=None):
    for n in range(count):
        if read is not None:
            read.append(n)
        yield f"/{n}"


async def numbers(answers):
    return [number(answer.request) async for answer in answers]


def slow_zero(n):
    return Answer(after=10 if n == 0 else 1)


@pytest.mark.parametrize(("ordered", "order"), [(True, [0, 1, 2, 3, 4]), (False, [1, 2, 3, 4, 0])])
def test_answers_come_in_the_order_of_the_requests_or_as_they_are_there(clock, ordered, order):
    api = server(clock, slow_zero)
    assert clock.run(numbers(api.map(targets(5), ordered=ordered))) == order


def test_no_more_are_in_flight_than_the_limits_let(clock):
    starts = []

    def script(n):
        starts.append(clock.now() / 1e9)
        return Answer(after=1)

    api = server(clock, script, rate="4/10s", concurrency=3)
    clock.run(numbers(api.map(targets(8))))
    assert [round(at - starts[0]) for at in starts] == [0, 0, 0, 1, 10, 10, 10, 11]


@pytest.mark.parametrize("ordered", [True, False])
def test_requests_are_read_only_as_far_ahead_as_needed(clock, ordered):
    read = []
    api = server(clock)

    async def main():
        async with aclosing(api.map(targets(10**9, read), ordered=ordered)) as answers:
            async for answer_ in answers:
                if number(answer_.request) == 5:
                    break
        return api.stats()

    stats = clock.run(main())
    assert len(read) <= 2 * 8 + 7
    assert (stats.running, stats.queued) == (0, 0)


def test_requests_may_come_from_an_async_iterable_while_answers_go_out(clock):
    api = server(clock)

    async def slowly():
        for n in range(3):
            yield f"/{n}"
            await asyncio.sleep(60)

    async def main():
        return [clock.now() // 60_000_000_000 async for _ in api.map(slowly())]

    first, *rest = clock.run(main())
    assert [at - first for at in rest] == [1, 2]


async def test_a_request_is_a_url_a_pair_or_a_mapping_of_options():
    async with Scripted(answer(OK)) as peer, AsyncClient(peer.url, concurrency=1) as api:
        items = [
            "/1",
            ("DELETE", "/2"),
            {"url": "/3", "method": "POST", "json": {"a": 1}, "headers": {"X": "own"}},
        ]
        got = [each async for each in api.map(items, ordered=True, headers={"X": "all"})]
        assert [each.request.method for each in got] == ["GET", "DELETE", "POST"]
        assert [(seen.target, seen.all("X"), seen.body) for seen in peer.seen] == [
            ("/1", ["all"], b""),
            ("/2", ["all"], b""),
            ("/3", ["own"], b'{"a":1}'),
        ]


def failing(n):
    return {1: 404, 2: "connect"}.get(n, 200)


def test_a_failure_is_a_value_that_says_whose_it_is(clock):
    items = ["/0", "/1", "/2", {"method": "GET"}, 7, {"url": "/5", "priorty": 1}, {"url": "/6", "priority": 99}, "/7"]
    api = server(clock, failing)

    async def main():
        return [each async for each in api.map(items, ordered=True, errors="return")]

    ok, status, connect, no_url, no_item, name, value, last = clock.run(main())
    assert (number(ok.request), number(last.request)) == (0, 7)
    assert (type(status), number(status.request)) == (StatusError, 1)
    assert (type(connect), number(connect.request)) == (ConnectFailed, 2)
    assert (type(no_url), type(no_item), no_item.request) == (InvalidRequest, InvalidRequest, 7)
    assert (type(name), name.request, "did you mean priority" in str(name)) == (InvalidRequest, items[5], True)
    assert (type(value), value.request) == (InvalidRequest, items[6])


@pytest.mark.parametrize("errors", ["raise", "return"])
def test_an_option_of_all_requests_that_cannot_be_used_ends_the_loop(clock, errors):
    api = server(clock)

    async def main():
        with pytest.raises(OptionsError, match="priority=99"):
            await numbers(api.map(targets(9), errors=errors, priority=99))

    clock.run(main())


@pytest.mark.parametrize("ordered", [True, False])
def test_a_failure_is_raised_in_its_place_and_ends_what_is_under_way(clock, ordered):
    got = []
    api = server(clock, failing)

    async def take():
        async for each in api.map(targets(100), ordered=ordered):
            got.append(number(each.request))  # noqa: PERF401 - what came before the error is the claim

    async def main():
        with pytest.raises(StatusError):
            await take()
        return api.stats()

    stats = clock.run(main())
    assert got == [0]
    assert (stats.running, stats.queued) == (0, 0)


async def test_leaving_the_loop_closes_the_connections_in_use():
    async with Scripted(hang) as peer, AsyncClient(peer.url, concurrency=3) as api:

        async def look():
            async for _ in api.map(targets(100)):
                pass

        task = asyncio.create_task(look())
        while len(peer.seen) < 3:
            await asyncio.wait([task], timeout=0.01)
        task.cancel()
        await asyncio.wait([task])
        await peer.until(lambda peer: peer.open == 0)
        assert (task.cancelled(), api.stats().running, api.stats().queued) == (True, 0, 0)


def test_a_closed_client_ends_the_loop_whatever_errors_says(clock):
    api = server(clock)

    async def main():
        await api.aclose()
        with pytest.raises(ClientClosed):
            await numbers(api.map(targets(10**9), errors="return"))

    clock.run(main())


def test_what_reading_the_requests_raises_is_raised(clock):
    def items():
        yield "/0"
        raise LookupError("items")

    async def main():
        with pytest.raises(LookupError, match="items"):
            await numbers(server(clock).map(items(), errors="return"))

    clock.run(main())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"requests": "/one"}, "requests"),
        ({"requests": {"url": "/one"}}, "requests"),
        ({"requests": 7}, "requests"),
        ({"errors": "retrun"}, "errors"),
        ({"ordered": 1}, "ordered"),
        ({"into": object()}, "into"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_at_the_call(clock, wrong, named):
    with pytest.raises(OptionsError) as caught:
        server(clock).map(**{"requests": [], **wrong})
    assert caught.value.option == named


def test_answers_come_as_values_of_the_type_that_is_named(clock):
    bodies = [Answer(json=7), Answer(json="seven"), Answer(404, json=7)]

    async def main():
        api = server(clock, bodies.__getitem__)
        return [each async for each in api.map(targets(3), into=int, ordered=True, errors="return")]

    value, no_int, missing = clock.run(main())
    assert (value, type(no_int), type(missing)) == (7, BadResponse, StatusError)


def test_a_url_may_be_an_object(clock):
    """HT-001"""
    assert clock.run(numbers(server(clock).map([URL("/0"), ("GET", URL("http://h/1")), {"url": URL("/2")}]))) == [
        0,
        1,
        2,
    ]


def test_the_widest_host_says_how_far_ahead(clock):
    read = []
    api = server(clock, lambda n: Answer(after=1), hosts={"other": {"concurrency": 5}})

    async def main():
        async with aclosing(api.map(targets(10**9, read))) as answers:
            async for _ in answers:
                break

    clock.run(main())
    assert 5 * 8 <= len(read) <= 5 * 8 + 2
