"""Accept: answers whose status alone does not say what they are; virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest

from comity.client.accept import Accept
from comity.client.async_client import AsyncClient
from comity.errors import OptionsError, RateLimited, StatusError
from comity.policy.backoff import Backoff
from comity.policy.retry import Retry
from comity.testing.scripted_transport import Answer
from tests.client.scripted import OK, Scripted, in_turn, ok
from tests.client.timed import timed

STEADY = Retry(attempts=3, backoff=Backoff(steps=(1,), jitter=None))
ERROR = Answer(200, json={"ok": False, "error": {"code": "busy"}})
FINE = Answer(200, json={"ok": True, "error": None})


@dataclass
class State:
    ok: bool


def client(clock, *script, **options):
    return timed(clock, *script, **{"retry": STEADY, "learn": None, **options})


def gaps(times):
    return [round(later - earlier, 6) for earlier, later in pairwise(times)]


def failed(clock, call):
    async def main():
        with pytest.raises(StatusError) as caught:
            await call
        return caught.value

    return clock.run(main())


def test_a_200_with_an_error_is_sent_again(clock):
    api, times = client(clock, ERROR, ERROR, FINE, accept=Accept("retry", json="error"))
    answer = clock.run(api.get("/x"))
    assert (answer.data["ok"], gaps(times)) == (True, [1, 1])
    assert [(each.status, each.decision) for each in answer.attempts] == [(200, "retry"), (200, "retry"), (200, "done")]


def test_and_is_an_error_when_no_attempt_is_left(clock):
    api, times = client(clock, ERROR, accept=Accept("retry", json="error"))
    error = failed(clock, api.get("/x"))
    assert (error.status_code, error.retryable, len(error.attempts), len(times)) == (200, True, 3, 3)
    assert "answered 200 OK, which counts as 503 by a rule of accept" in str(error)


def test_what_may_not_be_repeated_is_not_sent_again(clock):
    api, times = client(clock, ERROR, accept=Accept("retry", json="error"))
    error = failed(clock, api.post("/x", json={}))
    assert (error.attempts[0].decision, len(times)) == ("method", 1)


def test_a_failure_is_never_sent_again(clock):
    api, times = client(clock, Answer(503, json={"error": "no such user"}), accept=Accept("fail", json="error"))
    error = failed(clock, api.get("/x"))
    assert (error.status_code, error.retryable, len(times)) == (503, False, 1)


def test_raise_for_never_returns_it(clock):
    api, _ = client(clock, ERROR, accept=Accept("fail", json="error"), raise_for="never")
    assert clock.run(api.get("/x")).data["ok"] is False


@pytest.mark.parametrize("raise_for", ["error", "non_2xx"])
def test_an_error_status_may_be_fine(clock, raise_for):
    api, times = client(clock, 404, accept=Accept("ok", status=[404, 410]), raise_for=raise_for)
    assert (clock.run(api.get("/x")).status_code, len(times)) == (404, 1)


def test_a_503_may_be_fine_and_is_not_sent_again(clock):
    api, times = client(clock, Answer(503, json={"ok": True}), accept=Accept("ok", json="ok", equals=True))
    assert (clock.run(api.get("/x", into=State)), len(times)) == (State(ok=True), 1)


def test_a_403_that_means_too_fast_pauses_the_host_for_everybody(clock):
    slow_down = Answer(403, json={"error": {"errors": [{"reason": "rateLimitExceeded"}]}})
    rule = Accept("pause:30s", status=403, json="error.errors[0].reason", equals="rateLimitExceeded")
    api, times = client(clock, slow_down, FINE, accept=[rule])

    async def main():
        first = await api.post("/a", json={})
        second = await api.get("/b")
        return first, second

    first, _ = clock.run(main())
    assert (gaps(times)[0], [each.status for each in first.attempts]) == (30, [403, 200])
    assert first.attempts[0].retry_after == 30


def test_others_wait_for_the_end_of_that_pause(clock):
    api, times = client(clock, Answer(200, json={"error": "slow"}), FINE, accept=Accept("pause:20s", json="error"))

    async def main():
        await api.get("/a", raise_for="never", retry=Retry(attempts=1))
        began = clock.now()
        await api.get("/b")
        return (clock.now() - began) / 1e9

    assert clock.run(main()) == 20
    assert gaps(times) == [20]


def test_a_pause_takes_its_seconds_from_a_function_of_the_answer(clock):
    busy = Answer(200, json={"error": "slow", "wait": 7})
    api, times = client(clock, busy, FINE, accept=Accept(lambda answer: answer.data["wait"], json="error"))
    clock.run(api.get("/x"))
    assert gaps(times) == [7]


@pytest.mark.parametrize("verdict", ["pause", lambda answer: None])
@pytest.mark.parametrize(("headers", "wait"), [({"Retry-After": "9"}, 9), ({"X-RateLimit-Reset": "8"}, 8), ({}, 1)])
def test_a_pause_without_seconds_takes_those_of_the_answer_or_of_the_backoff(clock, verdict, headers, wait):
    busy = Answer(200, json={"error": "slow"}, headers=headers)
    api, times = client(clock, busy, FINE, accept=Accept(verdict, json="error"))
    clock.run(api.get("/x"))
    assert gaps(times) == [wait]


def test_a_pause_longer_than_allowed_ends_the_call_as_a_refusal_does(clock):
    api, times = client(clock, ERROR, accept=Accept("pause:5min", json="error"))
    error = failed(clock, api.get("/x"))
    assert (type(error), error.retry_after, len(times)) == (RateLimited, 300, 1)


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (Accept("fail", json="error"), True),
        (Accept("fail", json="error.code"), True),
        (Accept("fail", json="error.code", equals="busy"), True),
        (Accept("fail", json="error.code", equals="other"), False),
        (Accept("fail", json="ok", equals=False), True),
        (Accept("fail", json="ok", equals=0), False),
        (Accept("fail", json="none"), False),
        (Accept("fail", json="none", equals=None), True),
        (Accept("fail", json="missing"), False),
        (Accept("fail", json="missing", equals=None), False),
        (Accept("fail", status=200), True),
        (Accept("fail", status=(201, 200)), True),
        (Accept("fail", status=201, json="error"), False),
        (Accept("fail", when=lambda answer: b"busy" in answer.content), True),
        (Accept("fail", json="error", when=lambda answer: False), False),
        ([Accept("ok", json="missing"), Accept("ok", json="none"), Accept("fail", json="error")], True),
    ],
)
def test_a_rule_fits_when_all_of_its_conditions_hold(clock, rule, matches):
    api, _ = client(clock, Answer(json={"ok": False, "none": None, "error": {"code": "busy"}}), accept=rule)
    if matches:
        assert failed(clock, api.get("/x")).status_code == 200
    else:
        assert clock.run(api.get("/x")).status_code == 200


def test_the_first_rule_that_fits_decides(clock):
    api, times = client(
        clock, ERROR, accept=[Accept("ok", json="error.code", equals="busy"), Accept("fail", json="error")]
    )
    assert (clock.run(api.get("/x")).status_code, len(times)) == (200, 1)


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1"])
def test_a_body_that_is_no_json_fits_no_place_in_it(clock, content):
    api, _ = client(clock, Answer(content=content), accept=Accept("fail", json="error"))
    assert clock.run(api.get("/x")).content == content


def test_an_answer_that_no_rule_fits_counts_as_what_it_is(clock):
    api, times = client(clock, 503, 429, 404, accept=Accept("fail", json="error"))
    error = failed(clock, api.get("/x"))
    assert (error.status_code, gaps(times), "accept" in str(error)) == (404, [1, 1], False)


def test_a_calls_own_rules_replace_the_clients(clock):
    api, _ = client(clock, ERROR, accept=Accept("fail", json="error"))
    assert clock.run(api.get("/x", accept=None)).status_code == 200
    assert failed(clock, api.get("/x", accept=[Accept("fail", status=200)])).status_code == 200


def test_a_redirect_that_is_followed_is_not_judged(clock):
    script = [Answer(302, headers={"Location": "/y"}), FINE]
    api, times = client(clock, *script, follow_redirects=True, accept=Accept("fail", status=302))
    assert (clock.run(api.get("/x")).status_code, len(times)) == (200, 2)


def test_what_a_rules_function_raises_is_raised_and_leaves_nothing_behind(clock):
    def broken(answer):
        raise LookupError("mine")

    api, _ = client(clock, FINE, accept=Accept("fail", when=broken))

    async def main():
        with pytest.raises(LookupError, match="mine"):
            await api.get("/x")
        return api.stats()

    stats = clock.run(main())
    assert (stats.running, stats.queued) == (0, 0)


def test_a_refusal_with_a_broken_body_still_pauses_the_host(clock):
    api, times = client(
        clock, Answer(429, headers={"Retry-After": "6"}, fault="truncated"), FINE, accept=Accept("fail", json="error")
    )
    clock.run(api.get("/x"))
    assert gaps(times) == [6]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Accept("fail"),
        lambda: Accept("later", status=200),
        lambda: Accept("retry:3s", status=200),
        lambda: Accept("pause:soon", status=200),
        lambda: Accept("pause:", status=200),
        lambda: Accept(3, status=200),
        lambda: Accept("fail", status=42),
        lambda: Accept("fail", status="200"),
        lambda: Accept("fail", status=[200, True]),
        lambda: Accept("fail", json="a..b"),
        lambda: Accept("fail", status=200, equals=3),
        lambda: Accept("fail", json="a", equals=object()),
        lambda: Accept("fail", when="yes"),
        lambda: Accept("fail", stauts=200),
        lambda: AsyncClient(accept="fail"),
        lambda: AsyncClient(accept=[3]),
        lambda: AsyncClient(accept=3),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(make):
    with pytest.raises(OptionsError):
        make()


def test_a_rule_shows_its_conditions():
    assert "json='error.code', equals='busy'" in repr(Accept("retry", json="error.code", equals="busy"))


def test_functions_that_have_to_be_awaited_are_refused():
    async def later(answer):
        return 3

    with pytest.raises(OptionsError, match="plain function"):
        Accept(later, status=200)
    with pytest.raises(OptionsError, match="plain function"):
        Accept("fail", when=later)


@pytest.mark.parametrize("rule", [Accept(lambda answer: "soon", status=200), Accept("fail", when=lambda answer: None)])
def test_a_function_that_returns_something_else_is_an_error(clock, rule):
    api, _ = client(clock, FINE, accept=rule)

    async def main():
        with pytest.raises(OptionsError, match="function"):
            await api.get("/x")

    clock.run(main())


async def test_rules_hold_on_the_wire():
    slow, rule = ok(b'{"error": "busy"}', "Content-Type: application/json"), Accept("pause:1ms", json="error")
    async with Scripted(in_turn(slow, OK)) as server, AsyncClient(server.url, retry=1, accept=rule) as api:
        answer = await api.get("/x")
        assert (answer.data, [each.status for each in answer.attempts]) == ({"a": 1}, [200, 200])
