"""ScriptedTransport: answers from a script, under virtual time, that the client takes like those of a wire."""

from __future__ import annotations

import pytest

from comity import AsyncClient, BadResponse, ConnectionLost, RateLimited, Response, TimedOut
from comity.testing import Answer, ScriptedTransport, VirtualClock

URL = "http://api.example/users/1"


def ask(transport, clock, method="GET", **options):
    async def main() -> Response:
        async with AsyncClient(transport=transport, clock=clock) as api:
            return await api.request(method, URL, **options)

    return clock.run(main())


def scripted(*script):
    clock = VirtualClock()
    return ScriptedTransport(*script), clock


def test_entries_answer_in_order_and_requests_are_kept():
    """HT-017: 503, 503, 200 is an answer of three attempts."""
    transport, clock = scripted(503, 503, Answer(200, json={"id": 1}, headers={"X-A": "b"}))
    answer = ask(transport, clock)
    assert (answer.data, answer.headers["x-a"], len(answer.attempts)) == ({"id": 1}, "b", 3)
    assert [request.url for request in transport.requests] == [URL] * 3


def test_faults_are_told_apart_and_retried_where_that_is_safe():
    transport, clock = scripted("connect", "lost", "truncated")
    with pytest.raises(BadResponse) as caught:
        ask(transport, clock)
    assert [attempt.sent for attempt in caught.value.attempts] == ["no", "yes", "yes"]


def test_the_head_of_a_truncated_answer_counts():
    """RA-06: it names a wait that is longer than allowed."""
    transport, clock = scripted(Answer(429, headers={"Retry-After": "100"}, fault="truncated"))
    with pytest.raises(RateLimited) as caught:
        ask(transport, clock)
    assert (caught.value.retry_after, len(transport.requests)) == (pytest.approx(100), 1)


def test_a_lost_post_is_not_sent_again():
    transport, clock = scripted("lost")
    with pytest.raises(ConnectionLost, match="scripted"):
        ask(transport, clock, "POST")


@pytest.mark.parametrize(
    ("options", "phase", "seconds"),
    [
        ({"timeout": 2, "retry": 0}, "attempt", 2.0),
        ({"deadline": 3}, "deadline", 3.0),
        ({"retry": 0}, "response", 30.0),
    ],
)
def test_the_first_limit_ends_a_late_answer(options, phase, seconds):
    transport, clock = scripted(lambda _request: Answer(200, after="1h"))
    began = clock.now()
    with pytest.raises(TimedOut) as caught:
        ask(transport, clock, **options)
    assert (caught.value.phase, caught.value.sent) == (phase, "yes")
    assert (clock.now() - began) / 1e9 == pytest.approx(seconds, abs=1e-6)


def test_cookies_are_masked_unless_they_are_asked_for():
    """CP-070, CP-063."""
    answers = [Answer(headers=[("Set-Cookie", "sid=1")]), Answer(headers=[("Set-Cookie", "sid=1")])]
    transport, clock = scripted(*answers)
    assert ask(transport, clock).headers["set-cookie"] == "***"
    assert ask(transport, clock, expose_cookies=True).headers["set-cookie"] == "sid=1"


def test_a_request_beyond_the_script_is_named():
    transport, clock = scripted()
    with pytest.raises(AssertionError, match=r"script is at its end.*GET"):
        ask(transport, clock)
