"""Auth: who asks, told when the turn has come, to the origin that it is for, and shown to nobody."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import comity
from comity.client.async_client import AsyncClient
from comity.client.request import Request
from comity.errors import AuthFailed, InvalidRequest, OptionsError, RequestError, StatusError, TimedOut
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.testing import Answer, ScriptedTransport, VirtualClock
from tests.client.scripted import OK, Scripted, answer, in_turn, status

QUICK = Backoff(base=0.001, cap=0.001)


def asked(transport: ScriptedTransport) -> list[str | None]:
    """Return the Authorization of every request."""
    return [request.headers.get("authorization") for request in transport.requests]


def at(clock: VirtualClock, use: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    """Run `use` and return how many seconds it took."""
    began = clock.now()
    clock.run(use())
    return round((clock.now() - began) / 1e9, 3)


class Login:
    """Gives out numbered tokens: `t1` at first."""

    def __init__(self, *, lives: float | None = 100.0, takes: float = 0.0, fails: int = 0) -> None:
        self.lives, self.takes, self.fails = lives, takes, fails
        self.calls = 0

    async def __call__(self) -> tuple[str, float | None]:
        self.calls += 1
        number = self.calls
        await asyncio.sleep(self.takes)
        if number <= self.fails:
            raise ValueError("client_secret=SECRET is wrong")
        return f"t{number}", self.lives

    def source(self, **options: Any) -> comity.TokenSource:
        async def fetch() -> tuple[str, float | None]:
            return await self()

        return comity.TokenSource(fetch, **options)


@pytest.mark.parametrize(
    ("auth", "field"),
    [
        (("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        (("test", "123\u00a3"), "Basic dGVzdDoxMjPCow=="),
        (("k", ""), "Basic azo="),
        (comity.Bearer("abc.def-_~+/="), "Bearer abc.def-_~+/="),
    ],
)
async def test_a_pair_and_a_bearer_become_the_field(auth, field):
    """RFC 7617 sections 2 and 2.1, RFC 6750 section 2.1"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, auth=auth) as api:
        await api.get("/")
        assert server.seen[0].all("authorization") == [field]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_signs_what_is_sent_anew_for_every_attempt(is_async):
    count = 0

    def sign(request: Request) -> dict[str, str]:
        nonlocal count
        count += 1
        return {"X-Signature": f"{request.method} {request.address.target} {count}"}

    async def sign_later(request: Request) -> dict[str, str]:
        return sign(request)

    auth = sign_later if is_async else sign
    async with (
        Scripted(in_turn(status(503), OK)) as server,
        AsyncClient(server.url, auth=auth, retry=Retry(backoff=QUICK)) as api,
    ):
        response = await api.get("/x")
        assert [seen.all("x-signature") for seen in server.seen] == [["GET /x 1"], ["GET /x 2"]]
        assert "x-signature" not in response.request.headers


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "Bearer client"),
        ({"auth": None}, None),
        ({"auth": comity.Bearer("call")}, "Bearer call"),
        ({"headers": {"authorization": "Own x"}}, "Own x"),
        ({"headers": {"authorization": "Own x"}, "auth": comity.Bearer("call")}, "Bearer call"),
    ],
)
async def test_what_the_call_says_wins(options, field):
    transport = ScriptedTransport(200)
    async with AsyncClient("http://h", transport=transport, auth=comity.Bearer("client")) as api:
        await api.get("/", **options)
        assert asked(transport) == [field]


async def test_auth_of_a_client_stays_with_the_origin_of_its_base_url():
    transport = ScriptedTransport(200, 200, 200, 200)
    async with AsyncClient("http://h", transport=transport, auth=("u", "p")) as api:
        for url in ("/a", "http://h/b", "http://h:81/c", "https://h/d"):
            await api.get(url)
        assert [bool(field) for field in asked(transport)] == [True, True, False, False]


async def test_auth_does_not_go_along_to_another_origin_nor_come_back():
    """RD-01"""
    places = ["/2", "http://evil/3", "http://h/4"]
    script = [*(Answer(302, headers={"Location": place}) for place in places), 200]
    for base, options in (("http://h", {"auth": comity.Bearer("t")}), ("", {})):
        transport = ScriptedTransport(*script)
        client = {} if options else {"auth": comity.Bearer("t")}
        async with AsyncClient(base, transport=transport, follow_redirects=True, **client) as api:
            await api.get("http://h/1", **options)
        assert asked(transport) == ["Bearer t", "Bearer t", None, None]


@pytest.mark.parametrize(
    "wrong",
    ["SECRET", ("SECRET",), ("SECRET", 1), ("a:b", "SECRET"), ("a", "SECRET\n"), 7, ["a", "SECRET"]],
)
async def test_what_is_no_auth_is_refused_without_showing_it(wrong):
    with pytest.raises(OptionsError) as caught:
        AsyncClient(auth=wrong)
    assert caught.value.option == "auth"
    assert "SECRET" not in str(caught.value)
    async with AsyncClient() as api:
        with pytest.raises(OptionsError):
            await api.get("http://127.0.0.1:9/", auth=wrong)


@pytest.mark.parametrize("wrong", ["", "SEC RET", "SECRET\n", "SECR\u00e9T", None, b"SECRET"])
def test_what_is_no_token_is_refused_without_showing_it(wrong):
    with pytest.raises(OptionsError) as caught:
        comity.Bearer(wrong)
    assert "SEC" not in str(caught.value)


@pytest.mark.parametrize("options", [{"fetch": "SECRET"}, {"early": -1}, {"timeout": 0}])
def test_a_token_source_checks_its_options(options):
    with pytest.raises(OptionsError):
        comity.TokenSource(**{"fetch": Login(), **options})


def test_two_authorizations_are_one_too_many():
    with pytest.raises(OptionsError, match="Authorization already"):
        AsyncClient(auth=("u", "p"), headers={"Authorization": "x"})


async def test_no_repr_and_no_error_shows_a_secret():
    """SC-03"""
    source = Login().source()
    for auth in (("u", "SECRET"), comity.Bearer("SECRET"), source):
        async with Scripted(answer(status(403))) as server, AsyncClient(server.url, auth=auth) as api:
            with pytest.raises(StatusError) as caught:
                await api.get("/")
            error = caught.value
            shown = [repr(auth) if not isinstance(auth, tuple) else "", repr(api), str(error), repr(error.request)]
            shown += [repr(error.response), repr(error.request.headers), repr(vars(error))]
            assert not [text for text in shown if "SECRET" in text or "t1" in text or "Basic" in text]
            assert b"SECRET" not in pickle.dumps(error)


async def test_an_auth_function_that_fails_sends_nothing():
    def sign(request: Request) -> dict[str, str]:
        raise KeyError("password=SECRET")

    transport = ScriptedTransport(200)
    async with AsyncClient("http://h", transport=transport, auth=sign) as api:
        with pytest.raises(AuthFailed, match="KeyError") as caught:
            await api.get("/")
        assert (transport.requests, caught.value.attempts, caught.value.sent) == ([], (), "no")
        assert "SECRET" not in str(caught.value)
        assert api.stats().running == 0
        with pytest.raises(InvalidRequest, match="control character"):
            await api.get("/", auth=lambda _request: {"X-Sig": "a\r\nb"})
        assert (await api.get("/", auth=None)).status_code == 200


def test_all_who_wait_share_one_fetch_and_hold_no_slot_meanwhile():
    clock, login = VirtualClock(), Login(takes=5.0)

    async def use() -> None:
        transport = ScriptedTransport(lambda _request: 200)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=login.source(), concurrency=1) as api:
            waiting = [asyncio.create_task(api.get("/")) for _ in range(20)]
            await asyncio.sleep(1)
            assert api.stats().running == 0
            await api.get("/free", auth=None)
            assert transport.requests[0].address.target == "/free"
            await asyncio.gather(*waiting)
            assert (login.calls, asked(transport)) == (1, [None, *["Bearer t1"] * 20])

    assert at(clock, use) == 5.0


def test_a_token_that_expired_in_the_queue_is_fetched_before_the_send_and_the_turn_given_back():
    clock, login = VirtualClock(), Login(lives=50.0, takes=3.0)
    starts: list[tuple[str, float]] = []

    async def use() -> None:
        began = clock.now()

        def script(request: Request) -> Answer:
            starts.append((request.address.target, round((clock.now() - began) / 1e9, 3)))
            return Answer(200, after=60.0 if request.address.target == "/slow" else 0.0)

        transport = ScriptedTransport(script)
        source = login.source(early=1)
        async with AsyncClient(
            "http://h", transport=transport, clock=clock, auth=source, concurrency=1, rate="1/s", timeout=None
        ) as api:
            slow = asyncio.create_task(api.get("/slow"))
            await asyncio.sleep(4)
            queued = asyncio.create_task(api.get("/queued"))
            await asyncio.sleep(0)
            other = asyncio.create_task(api.get("/other", auth=None))
            await asyncio.gather(slow, queued, other)
            assert asked(transport) == ["Bearer t1", None, "Bearer t2"]
            assert len(queued.result().attempts) == 1

    at(clock, use)
    # The turn that came at 63 s was given back whole, so the other one started then, and this one after its fetch.
    assert starts == [("/slow", 3.0), ("/other", 63.0), ("/queued", 66.0)]


def test_a_token_is_fetched_anew_shortly_before_it_expires():
    clock, login = VirtualClock(), Login(lives=100.0)

    async def use() -> None:
        transport = ScriptedTransport(lambda _request: 200)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=login.source(early=30)) as api:
            for wait in (0.0, 69.9, 0.2, 60.0):
                await asyncio.sleep(wait)
                await api.get("/")
        assert asked(transport) == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]

    at(clock, use)


@pytest.mark.parametrize(("lives", "calls"), [(None, 1), (10.0, 3)])
def test_a_token_may_live_for_ever_or_shorter_than_twice_early(lives, calls):
    clock, login = VirtualClock(), Login(lives=lives)

    async def use() -> None:
        transport = ScriptedTransport(lambda _request: 200)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=login.source(early=30)) as api:
            for _ in range(5):
                await api.get("/")
                await asyncio.sleep(2.5)

    at(clock, use)
    assert login.calls == calls


@pytest.mark.parametrize("lives", [0.0, 0.000001, 0.5])
def test_a_token_that_is_over_as_it_comes_serves_a_second_instead_of_being_fetched_for_ever(lives):
    clock, login = VirtualClock(), Login(lives=lives, takes=0.6)

    async def use() -> None:
        transport = ScriptedTransport(lambda _request: 200)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=login.source(), deadline=5) as api:
            await asyncio.gather(*(api.get("/") for _ in range(5)))
            assert (login.calls, asked(transport)) == (1, ["Bearer t1"] * 5)
            await asyncio.sleep(1.1)
            await api.get("/")
            assert login.calls == 2

    at(clock, use)


async def test_a_401_is_answered_with_one_new_token_shared_by_all():
    login = Login(lives=None)
    good = "Bearer t2"

    def script(request: Request) -> Answer:
        return Answer(200 if request.headers.get("authorization") == good else 401)

    transport = ScriptedTransport(script)
    async with AsyncClient("http://h", transport=transport, auth=login.source()) as api:
        responses = await asyncio.gather(*(api.post("/", content=b"x") for _ in range(5)))
        assert login.calls == 2
        for response in responses:
            assert [(each.number, each.status, each.decision) for each in response.attempts] == [
                (1, 401, "retry"),
                (2, 200, "done"),
            ]


def test_a_late_401_of_an_older_token_fetches_no_further_one():
    clock, login = VirtualClock(), Login(lives=None)

    def script(request: Request) -> Answer:
        good = request.headers.get("authorization") == "Bearer t2"
        return Answer(200 if good else 401, after=5.0 if request.address.target == "/late" else 0.1)

    async def use() -> None:
        transport = ScriptedTransport(script)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=login.source()) as api:
            late = asyncio.create_task(api.get("/late"))
            for _ in range(3):
                await api.get("/")
            assert (await late).status_code == 200
        assert login.calls == 2

    at(clock, use)


async def test_a_second_401_is_the_answer():
    login = Login(lives=None)
    async with Scripted(answer(status(401))) as server, AsyncClient(server.url, auth=login.source()) as api:
        with pytest.raises(StatusError) as caught:
            await api.get("/")
        assert (caught.value.status_code, len(caught.value.attempts), len(server.seen), login.calls) == (401, 2, 2, 2)


async def test_a_401_without_a_source_is_the_answer():
    async with Scripted(answer(status(401))) as server, AsyncClient(server.url, auth=("u", "p")) as api:
        with pytest.raises(StatusError):
            await api.get("/")
        assert len(server.seen) == 1


async def test_a_failed_fetch_fails_all_who_wait_with_its_reason():
    login = Login(fails=9)
    transport = ScriptedTransport(200)
    async with AsyncClient("http://h", transport=transport, auth=login.source()) as api:
        errors = await asyncio.gather(*(api.get("/") for _ in range(5)), return_exceptions=True)
        assert {type(error) for error in errors} == {AuthFailed}
        assert len({id(error) for error in errors}) == 5
        assert "no token could be had (ValueError: client_secret=***" in str(errors[0])
        assert re.search(r", in fetch at test_auth\.py:\d+\)", str(errors[0]))
        assert (login.calls, transport.requests) == (1, [])


def test_after_a_failed_fetch_the_next_begins_a_second_later():
    clock, login = VirtualClock(), Login(fails=1)

    async def use() -> None:
        transport = ScriptedTransport(lambda _request: 200)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=login.source()) as api:
            for wait in (0.0, 0.5, 0.4):
                await asyncio.sleep(wait)
                with pytest.raises(AuthFailed, match="ValueError"):
                    await api.get("/")
            assert login.calls == 1
            await asyncio.sleep(0.2)
            assert (await api.get("/")).status_code == 200

    at(clock, use)


async def test_a_failed_fetch_after_a_401_keeps_the_attempts():
    login = Login(lives=None)
    transport = ScriptedTransport(401)
    async with AsyncClient("http://h", transport=transport, auth=login.source()) as api:
        login.fails = 2
        source_ok = comity.TokenSource(_once("t1"))
        with pytest.raises(AuthFailed) as caught:
            await api.get("/", auth=source_ok)
        assert [each.status for each in caught.value.attempts] == [401]


def _once(token: str) -> Callable[[], tuple[str, None]]:
    left = [token]
    return lambda: (left.pop(), None)


async def test_a_plain_function_fetches_in_a_thread_so_that_it_may_block():
    where: list[threading.Thread] = []

    def fetch() -> tuple[str, float]:
        where.append(threading.current_thread())
        return "t", 60.0

    transport = ScriptedTransport(200)
    async with AsyncClient("http://h", transport=transport, auth=comity.TokenSource(fetch)) as api:
        await api.get("/")
        assert asked(transport) == ["Bearer t"]
        assert where[0] is not threading.main_thread()


@pytest.mark.parametrize("given", ["t", ("t",), ("SEC RET", 1), ("t", -1), (None, 1), {"access_token": "t"}])
async def test_what_is_no_token_and_lifetime_fails_the_fetch(given):
    transport = ScriptedTransport(200)
    async with AsyncClient("http://h", transport=transport, auth=comity.TokenSource(lambda: given)) as api:
        with pytest.raises(AuthFailed) as caught:
            await api.get("/")
        assert "SEC RET" not in str(caught.value)


def test_a_deadline_and_the_sources_own_limit_end_a_fetch():
    clock = VirtualClock()

    async def use() -> None:
        transport = ScriptedTransport(lambda _request: 200)
        source = Login(takes=100.0).source(timeout=20)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=source) as api:
            slow = asyncio.create_task(api.get("/"))
            with pytest.raises(TimedOut) as caught:
                await api.get("/", deadline=5)
            assert (caught.value.phase, caught.value.seconds, caught.value.sent) == ("deadline", 5.0, "no")
            with pytest.raises(AuthFailed, match="longer than 20 s"):
                await slow

    assert at(clock, use) == 20.0


def test_who_gives_up_does_not_end_the_fetch_for_the_others():
    clock, login = VirtualClock(), Login(takes=5.0)

    async def use() -> None:
        transport = ScriptedTransport(200)
        async with AsyncClient("http://h", transport=transport, clock=clock, auth=login.source()) as api:
            first, second = asyncio.create_task(api.get("/")), asyncio.create_task(api.get("/"))
            await asyncio.sleep(1)
            first.cancel()
            assert (await second).status_code == 200
            assert (first.cancelled(), login.calls) == (True, 1)

    assert at(clock, use) == 5.0


def test_a_source_serves_several_loops_one_after_the_other():
    login = Login()
    source = login.source()

    async def use() -> list[str | None]:
        transport = ScriptedTransport(200)
        async with AsyncClient("http://h", transport=transport, auth=source) as api:
            await api.get("/")
        return asked(transport)

    async def leave() -> None:
        login.takes = 10.0
        task = asyncio.create_task(use())
        for _ in range(5):
            await asyncio.sleep(0)
        assert (login.calls, task.done()) == (1, False)

    asyncio.run(leave())
    login.takes = 0.0
    assert asyncio.run(use()) == asyncio.run(use()) == ["Bearer t2"]


def test_threads_share_one_fetch():
    login = Login()
    source = login.source()
    begun, seen = threading.Barrier(4), []

    async def use() -> None:
        transport = ScriptedTransport(200)
        async with AsyncClient("http://h", transport=transport, auth=source) as api:
            begun.wait()
            await api.get("/")
        seen.extend(asked(transport))

    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (seen, login.calls) == (["Bearer t1"] * 4, 1)


async def test_a_fetch_that_times_out_by_itself_fails_with_its_own_words():
    def fetch() -> tuple[str, float]:
        raise TimeoutError("the login server is silent")

    async with AsyncClient("http://h", transport=ScriptedTransport(200), auth=comity.TokenSource(fetch)) as api:
        with pytest.raises(AuthFailed, match="TimeoutError: the login server is silent"):
            await api.get("/")


def test_a_fetch_that_is_cancelled_is_begun_again_by_who_waits():
    clock, login = VirtualClock(), Login(takes=5.0)

    async def use() -> None:
        source = login.source()
        async with AsyncClient("http://h", transport=ScriptedTransport(200), clock=clock, auth=source) as api:
            waiting = asyncio.create_task(api.get("/"))
            await asyncio.sleep(1)
            [fetching] = [task for task in asyncio.all_tasks() if "_fly" in repr(task.get_coro())]
            fetching.cancel()
            assert (await waiting).status_code == 200
        assert asked(api._dispatcher.wire) == ["Bearer t2"]

    assert at(clock, use) == 6.0


async def _cancelled() -> tuple[str, float]:
    raise asyncio.CancelledError


def _stopped() -> tuple[str, float]:
    return next(iter(()))


@pytest.mark.parametrize(("fetch", "name"), [(_cancelled, "CancelledError"), (_stopped, "StopIteration")])
async def test_a_fetch_that_raises_what_no_future_carries_fails_instead_of_letting_wait_for_ever(fetch, name):
    source = comity.TokenSource(fetch, timeout=None)
    async with AsyncClient("http://h", transport=ScriptedTransport(200), auth=source, retry=0) as api:
        with pytest.raises(AuthFailed, match=name):
            await api.get("/")


@pytest.mark.parametrize("fault", [status(404, "Content-Encoding: gzip"), None])
async def test_an_error_speaks_of_the_request_as_the_caller_gave_it(fault):
    async with (
        Scripted(in_turn(fault)) as server,
        AsyncClient(server.url, auth=comity.Bearer("SECRET"), cookies=True, retry=0) as api,
    ):
        with pytest.raises(RequestError) as caught:
            await api.post("/", content=b"x")
        head = getattr(caught.value, "response", None)
        assert (head is None) == (fault is None)
        for request in (caught.value.request, caught.value.request if head is None else head.request):
            assert "authorization" not in request.headers


def test_auth_errors_are_request_errors_that_may_pass_later():
    assert issubclass(AuthFailed, RequestError)
    assert AuthFailed("x").retryable
