"""comity.httpx, comity.httpx2: a program that was written for httpx stays as it is and becomes polite."""

from __future__ import annotations

import asyncio
import gc
import io
import socket
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta

import httpx
import pytest

import comity
from comity import Backoff, Retry, Timeout
from comity.policy.events import Event

AT_ONCE = Backoff(base=0.001, jitter=None)
THRICE = Retry(attempts=3, backoff=AT_ONCE)
ONCE = Retry(attempts=1)


class Told(asyncio.Event):
    """Is set when a request waits for its turn, in whichever thread."""

    def __init__(self) -> None:
        super().__init__()
        self._tell = asyncio.get_running_loop().call_soon_threadsafe

    def __call__(self, event: Event) -> None:
        if event.type == "queued":
            self._tell(self.set)


async def raised(error, awaitable):
    with pytest.raises(error) as caught:
        await awaitable
    return caught.value


def attempts(answer):
    return [(each.number, each.status, each.sent) for each in answer.extensions["comity"].attempts]


async def test_an_answer_is_what_the_library_would_give_and_tells_its_attempts(dropped, server):
    """PF-001, PF-023."""
    api = dropped(rate="100/s", client={"base_url": server.url, "headers": {"X-Mine": "1"}})
    answer = await api.get("/status/404", params={"header": "X-Their:2", "body": "gone"})
    assert (answer.status_code, answer.text, answer.headers["x-their"]) == (404, "gone", "2")
    assert (answer.http_version, answer.reason_phrase, answer.request.method) == ("HTTP/1.1", "Not Found", "GET")
    assert attempts(answer) == [(1, 404, "yes")]
    timings = answer.extensions["comity"].attempts[0].timings
    assert min(timings.connect, timings.upload, timings.response, timings.download) > 0
    assert "x-should-retry" not in answer.headers
    assert ("X-Mine", "1") in server.log[0].headers


async def test_what_may_be_repeated_is_sent_again(dropped, server):
    """PF-020, PF-021: a 503 and a lost connection."""
    api = dropped(retry=THRICE)
    assert attempts(await api.get(f"{server.url}/flaky/a?fail=2")) == [
        (1, 503, "yes"),
        (2, 503, "yes"),
        (3, 200, "yes"),
    ]
    lost = await api.get(f"{server.url}/flaky/b?code=reset&fail=1")
    assert [each.status for each in lost.extensions["comity"].attempts] == [None, 200]


async def test_a_post_is_sent_again_after_a_429_with_the_same_body_and_after_a_503_not(dropped, server):
    """PF-019, PF-020, PF-028."""
    api = dropped(retry=THRICE, learn=None)
    assert (await api.post(f"{server.url}/flaky/a?code=429", json={"a": 1})).status_code == 200
    assert [each.body for each in server.log] == [b'{"a":1}'] * 2
    assert (await api.post(f"{server.url}/flaky/b", json={"a": 1})).status_code == 503
    keyed = await api.post(f"{server.url}/flaky/c", json={"a": 1}, headers={"Idempotency-Key": '"k"'})
    assert (keyed.status_code, len(server.log)) == (200, 5)


async def test_a_generator_is_sent_once(dropped, server):
    """PF-028: never an empty body, and no StreamConsumed."""
    api = dropped(retry=THRICE, learn=None)
    answer = await api.request("PUT", f"{server.url}/flaky/a?code=429", content=api.body(b"ab", b"c"))
    assert (answer.status_code, attempts(answer)) == (429, [(1, 429, "yes")])
    assert [each.body for each in server.log] == [b"abc"]


async def test_a_stream_of_known_length_is_read_and_sent_again(dropped, server):
    api = dropped(retry=THRICE, learn=None)
    files = {"file": ("a.csv", io.BytesIO(b"id\n1\n"), "text/csv")}
    answer = await api.post(f"{server.url}/flaky/a?code=429", files=files)
    bodies = [each.body for each in server.log]
    assert (answer.status_code, len(bodies), len(set(bodies))) == (200, 2, 1)
    assert b"id\n1\n" in bodies[0]


async def test_the_slot_is_held_until_the_body_is_closed(dropped, server):
    told = Told()
    api = dropped(concurrency=1, on_event=told)
    async with api.stream("GET", f"{server.url}/ok/1") as answer:
        second = asyncio.create_task(api.get(f"{server.url}/ok/2"))
        await told.wait()
        assert [len(server.log), api.transport.stats().running] == [1, 1]
        assert (await api.read(answer), attempts(answer)) == (b'{"id":"1"}', [(1, 200, "yes")])
    assert (await second).status_code == 200


async def test_a_stream_that_is_left_early_gives_its_slot_back(dropped, server):
    api = dropped(concurrency=1)
    async with api.stream("GET", f"{server.url}/endless") as answer:
        assert answer.status_code == 200
    assert api.transport.stats().running == 0
    assert (await api.get(f"{server.url}/ok/2")).status_code == 200


def test_a_forgotten_answer_gives_its_slot_back():
    with comity.httpx.Transport(
        transport=httpx.MockTransport(lambda _: httpx.Response(200)), concurrency=1
    ) as transport:
        answer = transport.handle_request(httpx.Request("GET", "http://nowhere.example/"))
        assert (answer.status_code, transport.stats().running) == (200, 1)
        del answer
        gc.collect()
        assert transport.stats().running == 0


async def test_a_call_that_is_cancelled_gives_everything_back(server):
    transport = comity.httpx.AsyncTransport(concurrency=1)
    async with httpx.AsyncClient(transport=transport) as api:
        hanging = asyncio.create_task(api.get(f"{server.url}/hang"))
        waiting = asyncio.create_task(api.get(f"{server.url}/ok/1"))
        await server.until(lambda up: up.stats().total.in_flight == 1)
        waiting.cancel()
        hanging.cancel()
        await asyncio.gather(waiting, hanging, return_exceptions=True)
        stats = transport.stats()
        assert (stats.running, stats.queued) == (0, 0)
        assert (await api.get(f"{server.url}/ok/2")).status_code == 200


async def test_no_connection_is_a_connect_error_of_the_library(dropped):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        api = dropped(retry=THRICE)
        error = await raised(api.library.ConnectError, api.post(f"http://127.0.0.1:{unused.getsockname()[1]}/x"))
    cause = error.__cause__
    assert isinstance(cause, comity.ConnectFailed)
    assert [(each.number, each.sent) for each in cause.attempts] == [(1, "no"), (2, "no"), (3, "no")]
    assert (error.request.url, cause.request.url) == (error.request.url, error.request.url)


async def test_what_was_sent_on_a_connection_of_its_own_is_known_and_on_a_used_one_not(dropped, server):
    api = dropped(retry=ONCE)
    fresh = await raised(api.library.TransportError, api.post(f"{server.url}/reset", json=1))
    assert isinstance(fresh.__cause__, comity.ConnectionLost)
    assert [each.sent for each in fresh.__cause__.attempts] == ["yes"]
    await api.get(f"{server.url}/ok/1")
    used = await raised(api.library.TransportError, api.post(f"{server.url}/reset", json=1))
    assert server.log[-1].connection == server.log[-2].connection
    assert (used.__cause__.sent, used.__cause__.attempts[0].sent) == ("maybe", "maybe")


async def test_the_limits_of_the_client_hold_for_each_send(dropped, server):
    """PF-024, PF-025."""
    api = dropped(retry=THRICE, client={"timeout": (10, 0.05, 10, 10)})
    error = await raised(api.library.ReadTimeout, api.get(f"{server.url}/hang"))
    assert isinstance(error.__cause__, comity.TimedOut)
    assert (error.__cause__.phase, error.__cause__.seconds) == ("response", 0.05)
    assert [each.sent for each in error.__cause__.attempts] == ["yes"] * 3


@pytest.mark.parametrize(
    ("options", "phase"),
    [
        ({"timeout": Timeout(response=0.05)}, "response"),
        ({"timeout": 0.05}, "attempt"),
        ({"deadline": 0.05}, "deadline"),
    ],
)
async def test_a_limit_of_the_policy_holds_beside_them(dropped, server, options, phase):
    api = dropped(retry=ONCE, **options)
    error = await raised(api.library.TimeoutException, api.get(f"{server.url}/hang"))
    assert (type(error.__cause__), error.__cause__.phase) == (comity.TimedOut, phase)


async def test_the_default_limits_of_a_policy_leave_the_client_its_own(dropped, server):
    seen: list[dict] = []
    api = dropped(policy=comity.Policy(), client={"timeout": 600})
    wire = api.transport._inner
    name = "handle_request" if api.threads else "handle_async_request"
    send = getattr(wire, name)
    setattr(wire, name, lambda request: seen.append(request.extensions["timeout"]) or send(request))
    await api.get(f"{server.url}/ok/1")
    assert seen == [{"connect": 600, "read": 600, "write": 600, "pool": 600}]


async def test_a_deadline_ends_a_body_that_drips(dropped, server):
    api = dropped(deadline=0.3)
    error = await raised(api.library.ReadTimeout, api.get(f"{server.url}/slow-body?chunks=1000&ms=20"))
    assert (error.__cause__.phase, error.__cause__.sent) == ("deadline", "yes")
    assert api.transport.stats().running == 0


async def test_a_body_that_breaks_is_the_librarys_error_and_an_attempts(dropped, server):
    api = dropped(retry=THRICE)
    error = await raised(api.library.RemoteProtocolError, api.get(f"{server.url}/truncate?kind=length"))
    assert isinstance(error.__cause__, comity.BadResponse)
    assert [(each.status, each.error is not None) for each in error.__cause__.attempts] == [(200, True)]
    assert api.transport.stats().running == 0


async def test_a_wait_longer_than_allowed_is_the_answer_and_then_a_refusal(dropped, server):
    """PF-017, PF-018: the 429 as it came; then nothing is sent, and the cause names the time."""
    api = dropped(retry=THRICE)
    first = await api.get(f"{server.url}/status/429?retry_after=300")
    assert (first.status_code, first.headers["retry-after"], len(server.log)) == (429, "300", 1)
    error = await raised(api.library.PoolTimeout, api.get(f"{server.url}/ok/1"))
    assert isinstance(error.__cause__, comity.HostBlocked)
    assert error.__cause__.until - datetime.now(UTC) > timedelta(minutes=4)
    assert len(server.log) == 1


async def test_a_turn_that_does_not_come_is_a_pool_timeout(dropped, server):
    api = dropped(rate="1/h", queue_timeout=0.01)
    await api.get(f"{server.url}/ok/1")
    assert isinstance(
        (await raised(api.library.PoolTimeout, api.get(f"{server.url}/ok/2"))).__cause__, comity.QueueTimeout
    )
    assert len(server.log) == 1


async def test_a_full_queue_is_a_pool_timeout(dropped, server):
    told = Told()
    api = dropped(concurrency=1, max_queue=1, on_event=told)
    async with api.stream("GET", f"{server.url}/ok/1"):
        waiting = asyncio.create_task(api.get(f"{server.url}/ok/2"))
        await told.wait()
        error = await raised(api.library.PoolTimeout, api.get(f"{server.url}/ok/3"))
    assert isinstance(error.__cause__, comity.QueueFull)
    assert (await waiting).status_code == 200


async def test_a_closed_transport_refuses_as_the_library_does(dropped, server):
    told = Told()
    api = dropped(concurrency=1, on_event=told)
    async with api.stream("GET", f"{server.url}/ok/1"):
        waiting = asyncio.create_task(api.get(f"{server.url}/ok/2"))
        await told.wait()
        api.transport._hosts.close()
        assert isinstance((await raised(RuntimeError, waiting)).__cause__, comity.ClientClosed)


async def test_every_send_is_counted_and_told_once(dropped, server):
    """RY-03: 40 sends are 40 in the server's log, the stats, the events and the answers."""
    events: list[Event] = []
    api = dropped(retry=THRICE, on_event=events.append)
    answers = await asyncio.gather(*(api.get(f"{server.url}/flaky/{number}") for number in range(20)))
    host = next(iter(api.transport.stats().hosts.values()))
    finished = [each for each in events if each.type == "finished"]
    assert Counter(each.status for each in server.log) == {503: 20, 200: 20}
    assert (host.started, host.retried, len(finished)) == (40, 20, 40)
    assert sum(len(attempts(each)) for each in answers) == 40


async def test_a_success_is_not_repeated(dropped, server):
    """RY-05."""
    api = dropped(retry=5)
    for status in (200, 204, 206):
        assert len(attempts(await api.get(f"{server.url}/status/{status}"))) == 1
    assert len(server.log) == 3


async def test_what_was_tried_again_tells_its_connection_to_the_next_send(dropped, server):
    """The body of an answer that nobody wants is read, so that its connection is used again."""
    api = dropped(retry=THRICE)
    await api.get(f"{server.url}/flaky/a?fail=2")
    assert server.stats().connections == 1


async def test_redirects_and_auth_stay_the_clients_and_each_of_its_requests_is_a_call(dropped, server):
    api = dropped(client={"follow_redirects": True, "auth": ("user", "password")})
    answer = await api.get(f"{server.url}/redirect?to=/ok/7")
    assert (answer.json(), [each.status_code for each in answer.history]) == ({"id": "7"}, [302])
    assert (len(attempts(answer)), len(server.log)) == (1, 2)
    assert all(name in dict(each.headers) for each in server.log for name in ["Authorization"])


async def test_a_compressed_body_comes_as_it_would(dropped, server):
    api = dropped()
    body = (await api.get(f"{server.url}/truncate?kind=gzip")).json()
    assert body["cut"]


async def test_requests_are_grouped_by_their_json(dropped, server):
    api = dropped(group="json:model")
    for model in ("small", "large", "small"):
        await api.post(f"{server.url}/ok/1", json={"model": model})
    assert sorted(name.partition(" ")[2] for name in api.transport.stats().hosts) == ["[model=large]", "[model=small]"]


async def test_a_rule_for_a_path_and_a_method_holds(dropped, server):
    hosts = {f"POST 127.0.0.1:{server.port}/ok/*": {"rate": "1/h", "queue_timeout": 0.01}}
    api = dropped(hosts=hosts)
    assert [(await api.post(f"{server.url}/ok/1?x=1")).status_code, (await api.get(f"{server.url}/ok/1")).status_code]
    await raised(api.library.PoolTimeout, api.post(f"{server.url}/ok/2"))


async def test_a_request_may_wish_for_more(dropped, server):
    api = dropped(rate="10 tokens/h", queue_timeout=0.01, retry=THRICE)
    cost = {"comity": {"cost": {"tokens": 10}, "idempotent": True, "priority": 0, "deadline": "1min"}}
    error = await raised(api.library.PoolTimeout, api.post(f"{server.url}/flaky/a", extensions=cost))
    assert isinstance(
        error.__cause__, comity.QueueTimeout
    )  # the second send, which the POST wished for, has no tokens left
    assert [each.status for each in error.__cause__.attempts] == [503]
    with pytest.raises(comity.OptionsError, match="did you mean priority"):
        await api.get(f"{server.url}/ok/1", extensions={"comity": {"priorty": 1}})
    with pytest.raises(comity.OptionsError, match="mapping"):
        await api.get(f"{server.url}/ok/1", extensions={"comity": 1})
    assert len(server.log) == 1


async def test_what_an_answer_says_it_cost_is_charged(dropped, server):
    told = "application/json&body=%7B%22usage%22:%7B%22total%22:10%7D%7D"
    api = dropped(rate="10 tokens/h", usage={"tokens": "usage.total"}, queue_timeout=0.01)
    cost = {"comity": {"cost": {"tokens": 1}}}
    await api.get(f"{server.url}/status/200?type={told}", extensions=cost)
    await raised(api.library.PoolTimeout, api.get(f"{server.url}/ok/1", extensions=cost))


async def test_the_callers_own_trace_is_told_too(dropped, server):
    api, seen = dropped(), []

    async def in_a_loop(event, info):
        seen.append(event)

    def in_a_thread(event, info):
        seen.append(event)

    await api.get(f"{server.url}/ok/1", extensions={"trace": in_a_thread if api.threads else in_a_loop})
    assert "http11.send_request_headers.complete" in seen


async def test_a_transport_of_ones_own_is_what_sends(dropped):
    """It tells nothing of how far it is, so that what it fails at may have been sent."""
    api = dropped()

    def answer(request):
        if request.url.path == "/lost":
            raise api.library.ReadError("gone")
        return api.library.Response(200, json={"path": request.url.path})

    own = dropped(transport=api.library.MockTransport(answer), retry=ONCE)
    assert (await own.get("http://nowhere.example/a")).json() == {"path": "/a"}
    error = await raised(api.library.ReadError, own.get("http://nowhere.example/lost"))
    assert error.__cause__.sent == "maybe"
    assert own.transport.stats().running == 0


async def test_what_is_no_error_of_the_wire_passes_as_it_is(dropped):
    api = dropped()

    def broken(request):
        raise KeyError("a slip")

    own = dropped(transport=api.library.MockTransport(broken))
    await raised(KeyError, own.get("http://nowhere.example/a"))
    assert own.transport.stats().running == 0


async def test_a_request_that_cannot_be_sent_is_not_sent_again(dropped):
    api = dropped(retry=THRICE)
    error = await raised(api.library.UnsupportedProtocol, api.get("ftp://127.0.0.1/x"))
    assert isinstance(error.__cause__, comity.InvalidRequest)
    assert len(error.__cause__.attempts) == 1


async def test_errors_show_no_secret(dropped, server):
    """SC-03."""
    api = dropped(retry=ONCE)
    error = await raised(api.library.TransportError, api.get(f"{server.url}/reset?token=SECRET"))
    assert "SECRET" not in str(error.__cause__)
    assert "token=***" in str(error.__cause__)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rat": "1/s"}, "did you mean rate"),
        ({"hedge": comity.Hedge(after="p95")}, "hedge"),
        ({"hosts": {"a.example": {"hedge": comity.Hedge(after="p95")}}}, "hedge"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, message):
    with pytest.raises(comity.OptionsError, match=message):
        comity.httpx.Transport(**options)


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_without_the_library_comity_works_and_the_error_names_the_extra(name):
    code = f"import sys; sys.modules[{name!r}] = None; import comity; comity.Policy(); comity.{name}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1].endswith(f"comity.{name} needs {name}: pip install 'comity[{name}]'")
