"""AsyncClient.with_options: a view of the same client with other defaults."""

from __future__ import annotations

import asyncio

import pytest

from comity.client.accept import Accept
from comity.client.async_client import AsyncClient
from comity.client.auth import Bearer
from comity.errors import ClientClosed, OptionsError, StatusError, TimedOut
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.testing.scripted_transport import Answer, ScriptedTransport
from tests.client.scripted import OK, Scripted, answer

QUICK = Retry(attempts=3, backoff=Backoff(base=0.001, cap=0.001))


def client(clock, *script, **options):
    transport = ScriptedTransport(*script)
    return transport, AsyncClient("http://h", transport=transport, clock=clock, **options)


async def test_a_view_shares_connections_limits_and_statistics():
    async with Scripted(answer(OK)) as server, AsyncClient(server.url) as api:
        view = api.with_options(priority=9)
        await api.get("/1")
        await view.get("/2")
        assert (server.connections, type(view)) == (1, AsyncClient)
        assert view.stats() == api.stats()


def test_a_rate_holds_for_client_and_views_together(clock):
    _, api = client(clock, lambda request: 200, rate="2/10s")
    views = [api, api.with_options(priority=1), api.with_options(priority=2)]

    async def main():
        began = clock.now()
        for view in views:
            await view.get("/x")
        return (clock.now() - began) / 1e9

    assert clock.run(main()) == 10


def test_a_view_asks_as_somebody_else_or_as_nobody_where_the_client_would(clock):
    transport, api = client(clock, lambda request: 200, auth=("me", "pw"))
    other, nobody = api.with_options(auth=Bearer("t")), api.with_options(auth=None)

    async def main():
        for view in (api, other, nobody):
            await view.get("/x")
        await other.get("http://elsewhere/x")

    clock.run(main())
    asked = [request.headers.get("authorization") for request in transport.requests]
    assert asked == ["Basic bWU6cHc=", "Bearer t", None, None]


def test_headers_come_over_the_clients_and_under_the_requests(clock):
    transport, api = client(clock, lambda request: 200, headers={"A": "client", "B": "client", "C": "client"})
    view = api.with_options(headers={"b": "view", "c": "view", "D": "view"}).with_options(headers={"a": None})

    async def main():
        await view.get("/x", headers={"C": "request"})
        await api.get("/x")

    clock.run(main())
    first, second = transport.requests
    assert [first.headers.get(name) for name in "abcd"] == [None, "view", "request", "view"]
    assert [second.headers.get(name) for name in "abcd"] == ["client", "client", "client", None]


def test_secret_headers_of_a_view_stay_with_the_origin_of_the_base_url(clock):
    transport, api = client(clock, lambda request: 200)
    view = api.with_options(headers={"X-API-Key": "k", "X-Team": "t"})

    async def main():
        await view.get("/x")
        await view.get("http://abroad/x")

    clock.run(main())
    assert [(sent.headers.get("x-api-key"), sent.headers.get("x-team")) for sent in transport.requests] == [
        ("k", "t"),
        (None, "t"),
    ]


@pytest.mark.parametrize(
    ("options", "own", "sends"),
    [({"retry": QUICK}, {}, 3), ({"retry": 0}, {}, 1), ({"retry": 0}, {"retry": QUICK}, 3), ({}, {}, 2)],
)
def test_retries_of_the_request_win_over_those_of_the_view_and_these_over_the_clients(clock, options, own, sends):
    transport, api = client(clock, lambda request: 503, retry=1, raise_for="never")
    clock.run(api.with_options(**options).get("/x", **own))
    assert len(transport.requests) == sends


@pytest.mark.parametrize(
    ("options", "own", "seconds"),
    [
        ({"timeout": 2}, {}, 2),
        ({"timeout": 2}, {"timeout": 3}, 3),
        ({"deadline": "4s"}, {}, 4),
        ({"deadline": None}, {"timeout": 9}, 9),
        ({}, {}, 5),
    ],
)
def test_times_of_the_request_win_over_those_of_the_view_and_these_over_the_clients(clock, options, own, seconds):
    _, api = client(clock, lambda request: Answer(200, after=1000), retry=0, deadline=5)

    async def main():
        began = clock.now()
        with pytest.raises(TimedOut):
            await api.with_options(**options).get("/x", **own)
        return (clock.now() - began) / 1e9

    assert clock.run(main()) == pytest.approx(seconds, abs=0.01)


def test_a_view_has_its_own_idea_of_errors_and_of_what_answers_count_as(clock):
    _, api = client(clock, lambda request: 404, raise_for="never")
    strict, judging = api.with_options(raise_for="error"), api.with_options(accept=Accept("ok", status=404))

    async def main():
        with pytest.raises(StatusError):
            await strict.get("/x")
        assert (await strict.get("/x", raise_for="never")).status_code == 404
        assert (await judging.get("/x", raise_for="non_2xx")).status_code == 404
        return (await api.get("/x")).status_code

    assert clock.run(main()) == 404


def test_a_view_of_low_priority_lets_others_go_first(clock):
    order = []

    def answered(request):
        order.append(request.url[-1])
        return Answer(200, after=1)

    _, api = client(clock, answered, concurrency=1)

    async def main():
        background = api.with_options(priority=9)
        await asyncio.gather(api.get("/1"), background.get("/2"), api.get("/3"), background.get("/4", priority=0))

    clock.run(main())
    assert order == ["1", "4", "3", "2"]


def test_closing_a_view_closes_the_client(clock):
    _, api = client(clock, 200)

    async def main():
        async with api.with_options(priority=1):
            pass
        with pytest.raises(ClientClosed):
            await api.get("/x")

    clock.run(main())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"priority": 10}, "priority"),
        ({"timeout": -1}, "timeout"),
        ({"deadline": 0}, "deadline"),
        ({"retry": -1}, "retry.retries"),
        ({"raise_for": "always"}, "raise_for"),
        ({"headers": {"X": "a\n"}}, "headers"),
        ({"accept": "fail"}, "accept"),
        ({"auth": "token"}, "auth"),
        ({"auth": ("me", "pw"), "headers": {"Authorization": "x"}}, "auth"),
        ({"rate": "1/s"}, "rate"),
        ({"tiemout": 1}, "tiemout"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_at_once(clock, wrong, named):
    _, api = client(clock)
    with pytest.raises(OptionsError) as caught:
        api.with_options(**wrong)
    assert caught.value.option == named
