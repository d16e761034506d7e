"""What each path answers: the plain ones and the ones that remember."""

from __future__ import annotations

import asyncio
import base64
import time

import aiohttp
import pytest

from comity.testing import Upstream, upstream
from comity.testing.upstream.journal import Journal
from comity.testing.upstream.limits import SECOND
from comity.testing.upstream.paths import KEYED, Paths
from tests.testing.upstream_client import ask, exchange, exchange_bytes, parse, request

MS = 1_000_000


def paths(seed: int = 0) -> Paths:
    return Paths(Journal(1000), keep=1000, seed=seed)


def fields(answer) -> dict[str, str]:
    lines = answer.head.decode("latin-1").split("\r\n")[1:-1]
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


def test_the_table_names_every_path():
    named = {line.split()[0].split("/")[1] for line in upstream.__doc__.splitlines() if line.startswith("    /")}
    assert named == set(paths().names)
    assert named >= KEYED


async def test_the_root_shows_the_table():
    async with Upstream() as up:
        reply = await ask(up, "/")
    assert reply.body.decode() == upstream.__doc__
    assert reply.header("content-type") == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("target", "shown"), [("/ok/7", "7"), ("/ok/a%20%22b", 'a "b'), ("/ok/a/b", "a/b"), ("/ok", "")]
)
async def test_ok_answers_its_id(target, shown):
    async with Upstream() as up:
        reply = await ask(up, target)
    assert (reply.status, reply.json()) == (200, {"id": shown})
    assert reply.header("date").endswith(" GMT")


@pytest.mark.parametrize("size", [30, 1000, 300_000])
async def test_ok_pads_its_body_to_the_size_asked_for(size):
    async with Upstream() as up:
        reply = await ask(up, f"/ok/7?bytes={size}")
    assert len(reply.body) == size
    assert reply.json()["id"] == "7"


async def test_status_sends_hints_and_fields_as_given():
    target = "/status/429?retry_after=soon&header=X-RateLimit-Reset:2&header=X-A:b:c&type=text/html&body=%3Cp%3E"
    async with Upstream() as up:
        reply = await ask(up, target)
    assert (reply.status, reply.body) == (429, b"<p>")
    shown = [reply.header(name) for name in ("retry-after", "x-ratelimit-reset", "x-a", "content-type")]
    assert shown == ["soon", "2", "b:c", "text/html"]


async def test_status_can_send_a_date_of_its_own():
    async with Upstream() as up:
        reply = await ask(up, "/status/200?header=Date:Thu,%2001%20Jan%201970%2000:00:00%20GMT")
    assert [value for name, value in reply.headers if name == "date"] == ["Thu, 01 Jan 1970 00:00:00 GMT"]


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_length_and_keeps_the_connection(status):
    async with Upstream() as up:
        sent = request(f"/status/{status}") + request("/ok/1", headers="Connection: close\r\n")
        first, second = (await exchange_bytes(up, sent)).split(b"\r\n\r\n", 1)
    assert b"ontent-" not in first
    assert parse(second).json() == {"id": "1"}


async def test_head_is_answered_with_the_head_alone():
    """The length is that of the body GET would bring."""
    async with Upstream() as up:
        reply = await ask(up, "/ok/7", method="HEAD")
    assert (reply.status, reply.header("content-length"), reply.body) == (200, "10", b"")


async def test_echo_shows_the_request_byte_for_byte():
    body = b"\xff\x00abc"
    async with Upstream() as up:
        raw = request(
            "/echo/%2f?a=%20+b&a", method="PATCH", headers="X-B: 1\r\nX-A: 2\r\nConnection: close\r\n", body=body
        )
        shown = parse(await exchange_bytes(up, raw)).json()
    assert (shown["method"], shown["target"]) == ("PATCH", "/echo/%2f?a=%20+b&a")
    names = [name for name, _ in shown["headers"]]
    assert names == ["Host", "X-B", "X-A", "Connection", "Content-Length"]
    assert shown["body"] == {"base64": base64.b64encode(body).decode(), "text": None}


async def test_echo_reads_a_chunked_body_sent_after_100_continue():
    async def body():
        yield b"abc"
        yield b"def"

    async with (
        Upstream() as up,
        aiohttp.ClientSession() as session,
        session.post(up.url + "/echo", data=body(), expect100=True) as answer,
    ):
        shown = await answer.json()
    assert shown["body"]["text"] == "abcdef"
    assert ["Transfer-Encoding", "chunked"] in shown["headers"]


async def test_redirect_hops_and_then_leads_on():
    async with Upstream() as up, aiohttp.ClientSession() as session:
        async with session.get(up.url + "/redirect?n=3&code=307&to=/ok/end") as answer:
            assert (answer.status, await answer.json()) == (200, {"id": "end"})
        assert [hop.status for hop in answer.history] == [307, 307, 307]
        assert len(up.arrivals("/redirect")) == 3


async def test_set_cookie_sends_each_cookie_in_a_field_of_its_own():
    async with Upstream() as up:
        usual, asked = await ask(up, "/set-cookie"), await ask(up, "/set-cookie?cookie=a=1&cookie=b=2")
    assert usual.header("set-cookie").startswith("session=s3cret")
    assert [value for name, value in asked.headers if name == "set-cookie"] == ["a=1", "b=2"]


@pytest.mark.parametrize("target", ["/delay/30", "/ok/1?ms=30", "/status/503?ms=30", "/limited/a?ms=30"])
async def test_an_answer_is_never_earlier_than_its_delay(target):
    async with Upstream() as up:
        await ask(up, target)
        (arrival,) = up.log
    assert arrival.first_byte - arrival.at >= 30 * MS


def test_jitter_is_random_within_its_bound_and_the_same_for_the_same_seed():
    delays = [
        [paths.answer(exchange("/ok/1?jitter=300")).delay for _ in range(50)]
        for paths in (paths(7), paths(7), paths(8))
    ]
    assert delays[0] == delays[1] != delays[2]
    assert all(0 <= delay <= 300 * MS for delay in delays[0])
    assert len(set(delays[0])) > 40


def test_delays_add_up():
    assert paths().answer(exchange("/delay/20?ms=10")).delay == 30 * MS


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/nope", "GET / lists them"),
        ("/ok/1?ms=x", "?ms=x cannot be used"),
        ("/ok/1?ms=-1", "at least 0 ms"),
        ("/ok/1?ms=1e99", "?ms=1e99"),
        ("/ok/1?ms=nan", "?ms=nan"),
        ("/ok/1?bytes=99999999999", "from 0 to"),
        ("/status/99", "from 200 to 599"),
        ("/status/1000", "from 200 to 599"),
        ("/limited/a?n=0", "from 1 to"),
        ("/limited/a?per=0", "more than 0 s"),
        ("/bucket/a?rate=0", "more than 0 per second"),
        ("/headers/a?style=z", "one of draft, x, epoch, old"),
        ("/redirect?code=200", "one of 301"),
        ("/status/200?header=a%0d%0ab:c", "not a header field"),
        ("/redirect?to=/%0d%0aX:1", "not a header field"),
        ("/hang?after=dinner", "one of request, headers, body"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_named(target, says):
    async with Upstream() as up:
        reply = await ask(up, target)
    assert reply.status == (404 if target == "/nope" else 400)
    assert says in reply.body.decode()


def test_flaky_fails_its_first_requests_per_key():
    asked = paths()
    statuses = [asked.answer(exchange(f"/flaky/{key}?fail=2&code=500")).status for key in "aabaab"]
    assert statuses == [500, 500, 500, 200, 200, 500]


async def test_flaky_counts_up_and_hints():
    async with Upstream() as up:
        first, second = [await ask(up, "/flaky/a?fail=1&code=429&retry_after=1") for _ in range(2)]
    assert (first.status, first.header("retry-after"), first.json()["attempt"]) == (429, "1", 1)
    assert (second.status, second.header("retry-after"), second.json()["attempt"]) == (200, None, 2)


def test_limited_refuses_over_its_sliding_window_with_whole_seconds_rounded_up():
    asked = paths()
    answers = [asked.answer(exchange("/limited/a?n=2&per=2.5", at)) for at in (0, SECOND, 2 * SECOND, 5 * SECOND // 2)]
    assert [answer.status for answer in answers] == [200, 200, 429, 200]
    assert fields(answers[2])["Retry-After"] == "1"


@pytest.mark.parametrize(("at", "hint"), [(0, "3"), (1, "3"), (SECOND, "2"), (SECOND + 1, "2"), (3 * SECOND - 1, "1")])
def test_a_retry_after_is_never_too_short_and_never_zero(at, hint):
    asked = paths()
    asked.answer(exchange("/limited/a?n=1&per=3", 0))
    assert fields(asked.answer(exchange("/limited/a?n=1&per=3", at)))["Retry-After"] == hint


def test_a_hint_can_be_left_out_or_replaced():
    asked = paths()
    asked.answer(exchange("/limited/a?n=1"))
    assert "Retry-After" not in fields(asked.answer(exchange("/limited/a?n=1&hint=no")))
    assert fields(asked.answer(exchange("/limited/a?n=1&retry_after=0.5")))["Retry-After"] == "0.5"


def test_keys_and_paths_do_not_share_a_limit():
    asked = paths()
    targets = ("/limited/a?n=1", "/limited/b?n=1", "/headers/a?n=1", "/window/a?n=1", "/bucket/a?burst=1")
    assert [asked.answer(exchange(target)).status for target in targets] == [200] * 5
    assert [asked.answer(exchange(target)).status for target in targets] == [429] * 5


def test_window_starts_with_the_first_request_of_its_key():
    """Around its boundary a fixed window lets twice its number through, as the servers that have it do."""
    asked = paths()
    times = (7, 7 + SECOND - 1, 7 + SECOND - 1, 7 + SECOND, 7 + SECOND)
    statuses = [asked.answer(exchange("/window/a?n=2&per=1", at)).status for at in times]
    assert statuses == [200, 200, 429, 200, 200]


def test_bucket_passes_its_burst_and_then_its_rate():
    asked = paths()
    times = (0, 0, 0, SECOND // 2 - 1, SECOND // 2)
    assert [asked.answer(exchange("/bucket/a?rate=2&burst=2", at)).status for at in times] == [200, 200, 429, 429, 200]


def test_another_per_rate_or_burst_starts_a_key_anew():
    asked = paths()
    for first, other in (
        ("/limited/a?n=1&per=5", "/limited/a?n=1&per=6"),
        ("/window/a?n=1&per=5", "/window/a?n=1&per=6"),
        ("/bucket/a?burst=1", "/bucket/a?burst=1&rate=11"),
    ):
        assert [asked.answer(exchange(target)).status for target in (first, first, other)] == [200, 429, 200]


@pytest.mark.parametrize(
    ("style", "announced"),
    [
        ("draft", {"RateLimit-Policy": '"default";q=3;w=5', "RateLimit": '"default";r=1;t=4'}),
        ("x", {"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "4"}),
        ("old", {"RateLimit-Limit": "3", "RateLimit-Remaining": "1", "RateLimit-Reset": "4"}),
    ],
)
def test_headers_announces_the_quota(style, announced):
    asked = paths()
    asked.answer(exchange("/headers/a?n=3&per=5", 0))
    assert announced.items() <= fields(asked.answer(exchange(f"/headers/a?n=3&per=5&style={style}", SECOND))).items()


def test_headers_can_announce_the_reset_as_a_unix_time():
    before = time.time()
    shown = fields(paths().answer(exchange("/headers/a?n=3&per=5&style=epoch")))
    assert before + 5 <= int(shown["X-RateLimit-Reset"]) <= time.time() + 6


def test_headers_refuses_like_limited():
    asked = paths()
    asked.answer(exchange("/headers/a?n=1"))
    refused = asked.answer(exchange("/headers/a?n=1"))
    assert refused.status == 429
    assert {"Retry-After": "5", "RateLimit": '"default";r=0;t=5'}.items() <= fields(refused).items()


def test_slots_serve_in_turn_and_refuse_over_the_queue():
    asked = paths()
    answers = [asked.answer(exchange("/slots/a?c=2&ms=40&queue=1&retry_after=1", 1000)) for _ in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 200, 503]
    assert [answer.delay for answer in answers[:3]] == [40 * MS, 40 * MS, 80 * MS]
    assert fields(answers[3])["Retry-After"] == "1"


async def test_the_limit_holds_for_requests_that_come_at_once():
    async with Upstream() as up, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=50)) as session:

        async def status() -> int:
            async with session.get(up.url + "/limited/a?n=20&per=1000&jitter=20") as answer:
                return answer.status

        statuses = await asyncio.gather(*(status() for _ in range(50)))
        assert sorted(statuses) == [200] * 20 + [429] * 30
        assert up.stats().windows["/limited/a"].accepted == 20
        assert 1 <= up.stats().total.max_in_flight <= 50
