"""AsyncClient: what a caller says, gets and sees."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable

import pytest

from comity.client.async_client import AsyncClient
from comity.client.codings import ACCEPTED
from comity.errors import BadResponse, InvalidRequest, OptionsError, RequestError, StatusError
from comity.policy.backoff import Backoff
from comity.policy.options import Policy
from comity.policy.retry import Retry
from tests.client.scripted import OK, Scripted, answer, hang, in_turn, ok, status

QUICK = Backoff(base=0.001, cap=0.001)
TRIES = Retry(attempts=3, backoff=QUICK)


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
        assert second.all("Accept-Encoding") == [ACCEPTED]


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


@pytest.mark.parametrize("size", [1000, "1000 b", "off", None])
async def test_a_client_says_how_large_an_answer_may_be(size):
    async with Scripted(answer(ok(bytes(1001)))) as server, AsyncClient(server.url, retry=0, max_body=size) as api:
        if size in {"off", None}:
            assert len((await api.get("/")).content) == 1001
        else:
            with pytest.raises(BadResponse, match="max_body is 1000"):
                await api.get("/")


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
    rules = api._hosts.rules.default
    assert (rules.concurrency, rules.rate) == (3, ())


async def test_hosts_have_rules_of_their_own():
    async with (
        Scripted(in_turn(status(500), OK)) as server,
        AsyncClient(retry=0, hosts={"127.0.0.1": {"retry": TRIES}}) as api,
    ):
        assert (await api.get(server.url)).status_code == 200


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


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (None, {}),
        (b"/x", {}),
        (None, {"params": {"a": 1}}),
        ("/x", {"params": "a=b"}),
        ("/x", {"headers": "A: b"}),
        ("/x", {"headers": 5}),
    ],
)
@pytest.mark.parametrize("base", ["", "http://127.0.0.1:1"])
async def test_what_cannot_be_a_request_is_an_error_of_ours_before_anything_is_sent(base, url, options):
    """CP-078"""
    async with AsyncClient(base) as api:
        with pytest.raises(InvalidRequest) as caught:
            await api.get(url, **options)
    assert caught.value.attempts == ()


@pytest.mark.parametrize(
    "options", [{"hosts": 1}, {"hosts": {None: {}}}, {"hosts": {"a b": {}}}, {"headers": 1}, {"headers": "A: b"}]
)
def test_what_cannot_be_a_client_is_an_error_of_ours(options):
    [option] = options
    with pytest.raises(OptionsError) as caught:
        AsyncClient(**options)
    assert caught.value.option == option
