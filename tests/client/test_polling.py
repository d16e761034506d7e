"""AsyncClient.poll: asking again as often as the server wants, until it is finished; virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from yarl import URL

from comity.client.async_client import AsyncClient
from comity.client.headers import Headers
from comity.client.polling import Poll, next_poll
from comity.client.request import Request
from comity.client.response import Response
from comity.errors import BadResponse, ClientClosed, OptionsError, StatusError, TimedOut
from comity.testing.scripted_transport import Answer, ScriptedTransport
from tests.client.scripted import Scripted, in_turn, status
from tests.client.timed import timed


@dataclass
class Report:
    rows: int


def response(body=b"{}", code=202, retry_after=None):
    headers = Headers([("Content-Type", "application/json")])
    return Response(code, headers, body, request=Request("GET", "http://h/"), retry_after=retry_after)


def poll(clock, draw=0.5, **options):
    return Poll(**{"done": None, "every": None, "deadline": None, **options}, clock=clock, draw=lambda: draw)


@pytest.mark.parametrize(("draw", "wait"), [(0.0, 3.2), (0.5, 4.0), (0.9999, 4.8)])
def test_a_wait_that_the_body_names_is_spread_by_a_fifth(clock, draw, wait):
    """NP-044"""
    assert poll(clock, draw).wait(response(b'{"nextPollMs": 4000}'), 0) == pytest.approx(wait, abs=1e-3)


@pytest.mark.parametrize(("draw", "wait"), [(0.0, 4.0), (0.5, 4.4), (0.9999, 4.8)])
def test_a_retry_after_is_the_least_wait(clock, draw, wait):
    """RA-11"""
    assert poll(clock, draw).wait(response(retry_after=4.0), 0) == pytest.approx(wait, abs=1e-3)


def test_of_both_the_later_counts(clock):
    both = response(b'{"nextPollMs": 4000}', retry_after=4.0)
    assert [poll(clock, draw).wait(both, 0) for draw in (0.0, 0.75)] == [4.0, pytest.approx(4.4)]


@pytest.mark.parametrize(("every", "least"), [(None, 0.1), ("1s", 0.1), (0.02, 0.02)])
@pytest.mark.parametrize(
    "answer", [response(b'{"nextPollMs": 0}'), response(b'{"nextPollMs": 1}'), response(retry_after=0.0)]
)
def test_a_server_that_names_no_time_worth_the_name_is_not_asked_without_a_break(clock, answer, every, least):
    assert poll(clock, every=every).wait(answer, 0) == least


@pytest.mark.parametrize(("elapsed", "wait"), [(0, 2), (4.9, 2), (5, 4), (15, 8), (29, 8), (30, 16), (9999, 16)])
def test_where_the_server_names_no_time_looks_grow_rarer(clock, elapsed, wait):
    assert poll(clock).wait(response(), elapsed) == wait


@pytest.mark.parametrize(("draw", "wait"), [(0.0, 0.8), (0.5, 1.0)])
def test_or_are_as_far_apart_as_the_caller_says(clock, draw, wait):
    assert poll(clock, draw, every="1s").wait(response(), 100) == pytest.approx(wait)


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b'{"nextPollMs": 2000}', 2.0),
        (b'{"nextPollMs": 0}', 0.0),
        (b'{"nextPollMs": 1.5}', 0.0015),
        (b'{"data": {"status": "pending", "nextPollMs": 500}}', 0.5),
        (b'{"nextPollMs": -1}', None),
        (b'{"nextPollMs": "2000"}', None),
        (b'{"nextPollMs": true}', None),
        (b'{"nextPollMs": null}', None),
        (b'{"nextPollMs": 1e300}', None),
        (b'["nextPollMs"]', None),
        (b'{"data": "nextPollMs"}', None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_a_hint_that_is_no_plausible_number_is_absent(body, seconds):
    assert next_poll(response(body)) == seconds


def test_it_ends_with_the_first_answer_that_is_finished(clock):
    """RA-11"""
    api, times = timed(clock, Answer(202, headers={"Retry-After": "1"}), Answer(202, json={"nextPollMs": 2000}), 200)
    assert clock.run(api.poll("/jobs/1")).status_code == 200
    first, second, third = times
    assert 1.0 <= second - first <= 1.2
    assert 1.6 <= third - second <= 2.4


def test_a_200_with_a_next_poll_is_unfinished_and_one_without_is_the_end(clock):
    api, times = timed(clock, Answer(200, json={"data": {"nextPollMs": 1000}}), Answer(200, json={"status": "ready"}))
    assert clock.run(api.poll("/jobs/1")).data == {"status": "ready"}
    assert len(times) == 2


def test_closing_ends_the_wait_for_the_next_look_at_once(clock):
    api, times = timed(clock, Answer(202, headers={"Retry-After": "3600"}))

    async def main():
        waiting = asyncio.create_task(api.poll("/jobs/1"))
        await asyncio.sleep(1)
        await api.aclose()
        with pytest.raises(ClientClosed):
            await waiting
        return clock.now() / 1e9 - times[0]

    assert clock.run(main()) == 1.0


def test_a_function_may_say_when_it_is_done(clock):
    api, times = timed(clock, *(Answer(200, json={"state": state}) for state in ("queued", "running", "done")))
    answer = clock.run(api.poll("/1", done=lambda response: response.data["state"] == "done", every=5))
    assert (answer.data, len(times)) == ({"state": "done"}, 3)


def test_the_last_answer_becomes_the_type_that_was_named(clock):
    """CP-066"""
    api, _ = timed(
        clock, Answer(202, json={"nextPollMs": 1}), Answer(json={"rows": 3}), Answer(json={"rows": None}), 404
    )
    assert clock.run(api.poll("/1", into=Report)) == Report(3)

    async def main():
        with pytest.raises(BadResponse, match=r"\$\.rows: expected int, got null"):
            await api.poll("/1", into=Report)
        with pytest.raises(StatusError):
            await api.poll("/1", into=Report, raise_for="never")

    clock.run(main())


def test_a_wait_beyond_the_deadline_ends_it_at_once(clock):
    api, times = timed(clock, Answer(202, headers={"Retry-After": "2000000"}))

    async def main():
        with pytest.raises(TimedOut, match=r"the next look in 2\d{6}[\d.]* s .* the deadline of 2500000 s") as caught:
            await api.poll("/1", deadline=2_500_000)
        return caught.value, clock.now() / 1e9

    error, ended = clock.run(main())
    assert (error.phase, error.seconds, len(error.attempts)) == ("deadline", 2_500_000.0, 1)
    assert (len(times), ended - times[-1]) == (2, 0)


def test_the_deadline_holds_for_a_look_that_hangs_too(clock):
    api, _ = timed(clock, Answer(202, json={"nextPollMs": 1000}), Answer(200, after=1000))

    async def main():
        began = clock.now()
        with pytest.raises(TimedOut):
            await api.poll("/1", deadline=5)
        return (clock.now() - began) / 1e9

    assert clock.run(main()) == pytest.approx(5, abs=0.01)


def test_a_look_that_fails_is_tried_again_like_any_request(clock):
    api, times = timed(clock, 202, 503, 200, retry=1)
    assert clock.run(api.poll("/1")).status_code == 200
    assert len(times) == 3


def test_an_error_status_ends_it(clock):
    api, times = timed(clock, 202, 404)

    async def main():
        with pytest.raises(StatusError):
            await api.poll("/1")

    clock.run(main())
    assert len(times) == 2


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"done": "ready"}, "done"),
        ({"every": 0}, "every"),
        ({"every": "often"}, "every"),
        ({"every": "off"}, "every"),
        ({"deadline": -1}, "deadline"),
        ({"into": 7}, "into"),
        ({"priorty": 1}, "priorty"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_before_anything_is_sent(clock, wrong, named):
    api, times = timed(clock, 200)

    async def main():
        with pytest.raises(OptionsError) as caught:
            await api.poll("/1", **wrong)
        return caught.value.option

    assert (clock.run(main()), times) == (named, [])


def test_a_function_that_says_neither_yes_nor_no_is_an_error(clock):
    api, _ = timed(clock, 200)

    async def main():
        with pytest.raises(OptionsError, match="done=None"):
            await api.poll("/1", done=lambda response: None)

    clock.run(main())


async def test_a_plain_call_returns_the_202_once_with_its_hint():
    """RA-11"""
    async with Scripted(in_turn(status(202, "Retry-After: 1"))) as server, AsyncClient(server.url) as api:
        answer = await api.get("/job")
        assert (answer.status_code, answer.retry_after, len(server.seen)) == (202, 1.0, 1)


def test_the_url_may_be_an_object(clock):
    """HT-001"""
    api, times = timed(clock, Answer(202), Answer(200, json=1))
    assert (clock.run(api.poll(URL("http://h/1"), every=1)).data, len(times)) == (1, 2)


def started(clock, *after, target="/jobs/7?full=1", **headers):
    """Return the client, the answer to a POST that names a status, the URLs asked since, and when."""
    seen = []
    entries = [Answer(202, headers={"Location": target, **headers}), *after]

    def answer(request):
        seen.append((request.url, clock.now() / 1e9))
        return entries.pop(0)

    api = AsyncClient("http://me:pw@h/v1", transport=ScriptedTransport(answer), clock=clock)
    response = clock.run(api.post("/jobs"))
    seen.clear()
    return api, response, seen


def test_the_answer_that_took_the_work_on_names_the_status_relative_to_itself(clock):
    """RFC 7240, 4.1"""
    api, response, seen = started(clock, Answer(202), Answer(200, json={"rows": 3}))
    assert clock.run(api.poll(response, into=Report)) == Report(3)
    assert [url for url, _ in seen] == ["http://h/jobs/7?full=1"] * 2


def test_its_hint_holds_for_the_first_look_too(clock):
    """RA-11"""
    api, response, seen = started(clock, 200, **{"Retry-After": "10"})
    began = clock.now() / 1e9
    clock.run(api.poll(response))
    assert 10 <= seen[0][1] - began <= 12


def test_without_a_hint_the_first_look_is_at_once(clock):
    api, response, seen = started(clock, 200)
    began = clock.now() / 1e9
    clock.run(api.poll(response))
    assert seen[0][1] == began


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("https://elsewhere.example/jobs/7", r"names the status '.*', which is not at http://h"),
        ("http://h:99/7", "which is not at"),
        ("//", "which cannot be asked for"),
    ],
)
def test_a_status_that_is_not_to_be_asked_for_is_a_bad_response(clock, target, says):
    api, response, seen = started(clock, 200, target=target)

    async def main():
        with pytest.raises(BadResponse, match=says):
            await api.poll(response)

    clock.run(main())
    assert seen == []


def test_an_answer_that_names_no_status_is_a_bad_response(clock):
    api, times = timed(clock, 202)

    async def main():
        with pytest.raises(BadResponse, match="names no status: it has no Location"):
            await api.poll(await api.post("/jobs"))

    clock.run(main())
    assert len(times) == 1
