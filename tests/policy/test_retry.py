"""Retry: when to try again, and when to stop. Pure: every test passes `now` and `draw`."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from comity.errors import OptionsError
from comity.policy.backoff import Backoff
from comity.policy.outcome import Outcome
from comity.policy.retry import DONE, CallState, Done, GiveUp, Retry, RetryAt, decide
from comity.policy.units import NS, seconds

NOW = seconds(1_000)
GET = CallState(attempts=1, idempotent=True)
POST = CallState(attempts=1)
PLAIN = Backoff(jitter=None)
RETRY = Retry(backoff=PLAIN)
POOL = Retry(backoff=Backoff(jitter=None, cap=None), refusals=0, over_cap="clamp", idempotent="any")
PACED = Retry(retries=3, refusals=0, backoff=Backoff(steps=(1, 3, 10), jitter=(0.8, 1.2)))

FAILURES = ("connect", "timeout", "lost", "truncated")


def after(call=GET, *, retry=RETRY, draw=0.0, now=NOW, **outcome):
    return decide(retry, call, Outcome(**outcome), now, draw)


def at(wait, reason, pause=None):
    return RetryAt(NOW + round(wait * NS), reason, None if pause is None else NOW + round(pause * NS))


def refused(count, *, retry_after=None, call=GET):
    """The call state after `count` refusals in a row that are counted apart, and the last outcome."""
    return replace(call, attempts=0, refusals=count, refusals_in_a_row=count), {
        "status": 429,
        "retry_after": retry_after,
    }


# What is retried


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 599, 408, 425])
def test_a_server_error_is_tried_again_after_the_backoff(status):
    """CP-075 HT-025 NP-024 PF-020: 5xx and 408 are retried with exponential backoff."""
    assert after(status=status) == at(1, str(status))
    assert after(replace(GET, attempts=2), status=status) == at(2, str(status))


@pytest.mark.parametrize(
    ("status", "counts_as", "decision"),
    [
        (200, 503, at(1, "200 as 503")),
        (403, 429, at(1, "403 as 429", pause=1)),
        (503, 400, DONE),
        (429, 200, DONE),
        (500, 500, at(1, "500 as 500")),
    ],
)
def test_what_an_answer_counts_as_decides_and_not_its_status(status, counts_as, decision):
    assert after(status=status, counts_as=counts_as) == decision


@pytest.mark.parametrize("failure", FAILURES)
def test_a_network_failure_is_tried_again_after_the_backoff(failure):
    """CP-077 HT-024 PF-021 PF-025 BJ-08: network errors and attempt timeouts wait the ordinary backoff."""
    assert after(failure=failure, sent="maybe") == at(1, failure)
    assert after(replace(GET, attempts=2), failure=failure, sent="maybe") == at(2, failure)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 418, 422, 426, 428, 431, 451])
def test_another_client_error_is_the_result(status):
    """CP-076 NP-025: other 4xx are never retried."""
    assert after(status=status) is DONE


@pytest.mark.parametrize("status", [200, 201, 202, 204, 301, 302, 304])
def test_an_answer_is_the_result_even_with_a_retry_after(status):
    """RA-11 PF-023: a 202 or 3xx with Retry-After is returned once; the hint stays with the answer."""
    assert after(status=status, retry_after=NS) is DONE
    assert after(status=404, retry_after=NS) is DONE


@pytest.mark.parametrize("failure", ["bad", "blocked", "deadline", "cancelled"])
def test_a_broken_answer_and_the_callers_own_end_are_never_retried(failure):
    """CP-078 CP-079 PF-026: what the caller ended, or what cannot be decoded, stays as it is."""
    assert after(failure=failure) == GiveUp(failure)
    assert after(failure=failure, sent="no") == GiveUp(failure)


def test_one_policy_decides_wait_and_class_for_every_cause():
    """NP-039: status, failure and refusal go through the same function and give the same kinds of decision."""
    decisions = [after(status=200), after(status=500), after(failure="lost"), after(refused(1)[0], status=429)]
    assert [type(decision) for decision in decisions] == [Done, RetryAt, RetryAt, RetryAt]


# How often


@pytest.mark.parametrize(
    ("options", "sends"),
    [({}, 3), ({"attempts": 2}, 2), ({"retries": 3}, 4), ({"retries": None}, 3), ({"retries": 0}, 1)],
)
def test_attempts_count_the_first_send_and_retries_do_not(options, sends):
    """CP-025 HT-032 PF-032 BJ-07: 3 attempts by default; `retries=r` sends r + 1 times; None is the default."""
    retry = Retry(backoff=PLAIN, **options)
    assert retry.attempts == sends
    decisions = [after(replace(GET, attempts=n), retry=retry, status=500) for n in range(1, sends + 1)]
    assert [type(each) for each in decisions] == [RetryAt] * (sends - 1) + [GiveUp]
    assert decisions[-1] == GiveUp("attempts")


def test_refusals_are_counted_apart_from_attempts():
    """429s are waited out ten times beyond the attempts."""
    for count in range(1, 11):
        call, outcome = refused(count, call=replace(GET, attempts=2))
        assert isinstance(after(call, **outcome), RetryAt)
    call, outcome = refused(11)
    assert after(call, **outcome).reason == "refusals"


def test_without_refusals_a_429_counts_as_an_attempt():
    """CP-025 PF-032: the reference pools count it."""
    retry = Retry(backoff=PLAIN, refusals=0)
    assert after(replace(GET, attempts=2), retry=retry, status=429) == at(2, "429", pause=2)
    assert after(replace(GET, attempts=3), retry=retry, status=429).reason == "attempts"


def test_a_single_attempt_means_one_send_whatever_the_answer():
    """HT-007: without retries nothing is sent twice, unless refusals are allowed by name."""
    assert Retry(attempts=1).refusals == 0
    assert after(retry=Retry(retries=0), status=429).reason == "attempts"
    assert Retry(attempts=1, refusals=5).refusals == 5
    assert Retry().refusals == Retry(attempts=2).refusals == 10


# Whose requests


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "get"])
def test_idempotent_methods_are_repeatable(method):
    """PF-020: RFC 9110, 9.2.2."""
    assert Retry().repeatable(SimpleNamespace(method=method))


@pytest.mark.parametrize("method", ["POST", "PATCH", "CONNECT", "QUERY"])
def test_other_methods_are_not(method):
    assert not Retry().repeatable(SimpleNamespace(method=method))


def test_a_predicate_declares_others_repeatable():
    """PF-022: a GraphQL read by POST."""
    retry = Retry(idempotent=lambda request: "query" in request.body)
    assert retry.repeatable(SimpleNamespace(method="POST", body="query { me }"))
    assert not retry.repeatable(SimpleNamespace(method="POST", body="mutation { go }"))
    assert retry.repeatable(SimpleNamespace(method="GET", body=""))


@pytest.mark.parametrize(
    "outcome", [{"status": 500}, {"status": 408}, *({"failure": name, "sent": "maybe"} for name in FAILURES)]
)
def test_a_post_is_not_repeated_when_it_may_have_arrived(outcome):
    """PF-020 PF-021: 5xx and network errors are retried for idempotent requests only."""
    assert after(POST, **outcome) == GiveUp("method")
    assert isinstance(after(replace(POST, idempotent=True), **outcome), RetryAt)


def test_any_method_may_be_retried_when_the_caller_says_so():
    """HT-027: the caller's choice."""
    retry = Retry(backoff=PLAIN, idempotent="any")
    assert retry.repeatable(SimpleNamespace(method="POST"))
    assert after(replace(POST, idempotent=True), retry=retry, status=500) == at(1, "500")
    assert after(POST, retry=retry, status=500) == GiveUp("method"), "and what one request says counts for more"


async def undecided(_request):
    return False


class Undecided:
    async def __call__(self, _request):
        return False


@pytest.mark.parametrize("function", [undecided, Undecided()])
@pytest.mark.parametrize("option", ["idempotent", "backoff"])
def test_a_function_that_has_to_be_awaited_is_refused(option, function):
    with pytest.raises(OptionsError, match=rf"retry\.{option}=.*a plain function"):
        Retry(**{option: function})


def test_a_function_that_does_not_answer_true_or_false_is_named():
    retry = Retry(idempotent=lambda _request: "no")
    with pytest.raises(OptionsError, match=r"retry\.idempotent \(function returned\)='no'"):
        retry.repeatable(SimpleNamespace(method="POST"))


def test_a_keyed_request_counts_as_idempotent():
    assert after(replace(POST, keyed=True), status=503) == at(1, "503")


@pytest.mark.parametrize("failure", FAILURES)
def test_what_was_not_sent_is_safe_to_send(failure):
    assert after(POST, failure=failure, sent="no") == at(1, failure)
    assert after(replace(POST, replayable=False), failure=failure, sent="no") == at(1, failure)


def test_a_429_is_retried_whatever_the_method():
    """PF-019: the idempotency rule is for 5xx and network errors only."""
    call, outcome = refused(1, call=POST)
    assert after(call, **outcome) == at(1, "429", pause=1)


@pytest.mark.parametrize("outcome", [{"status": 503}, {"status": 429}, {"failure": "lost", "sent": "maybe"}])
def test_a_body_that_cannot_be_replayed_is_never_sent_twice(outcome):
    """PF-028: never an empty or half-read body."""
    assert after(replace(GET, replayable=False), **outcome).reason == "body"


# Hints


@pytest.mark.parametrize("wait", [0, 0.25, 2, 60])
def test_a_429_waits_exactly_what_it_names_and_the_host_with_it(wait):
    """CP-074 PF-012 PF-013 RA-01 RA-03 RA-08: the time named, no backoff and no jitter added; a past date is 0."""
    call, outcome = refused(1, retry_after=round(wait * NS))
    assert after(call, draw=0.9, **outcome) == at(wait, "429", pause=wait)


def test_a_429_without_a_time_waits_the_backoff():
    """PF-014: 1 s, 3 s, 10 s with jitter when there is no Retry-After."""
    for attempts, (low, middle) in enumerate([(0.8, 1), (2.4, 3), (8, 10)], start=1):
        call = replace(GET, attempts=attempts)
        assert after(call, retry=PACED, status=429) == at(low, "429", pause=low)
        assert after(call, retry=PACED, status=429, draw=0.5) == at(middle, "429", pause=middle)
    assert after(replace(GET, attempts=4), retry=PACED, status=429).reason == "attempts"


def test_a_server_that_refuses_again_after_its_own_time_is_given_more():
    """From the second refusal in a row the wait is the longer of hint and backoff."""
    for count, wait in ((1, 1), (2, 2), (3, 4), (4, 8)):
        call, outcome = refused(count, retry_after=NS)
        assert after(call, **outcome) == at(wait, "429", pause=wait)
    call, outcome = refused(2, retry_after=30 * NS)
    assert after(call, **outcome) == at(30, "429", pause=30)


def test_the_request_pool_waits_a_repeated_429_exactly_too():
    """CP-074: with `refusals=0` no backoff enters the wait of a 429 that names a time."""
    call = CallState(attempts=2, refusals=2, refusals_in_a_row=2)
    assert after(call, retry=POOL, status=429, retry_after=NS // 4) == at(0.25, "429", pause=0.25)


def test_the_request_pool_clamps_a_long_hint_and_sends_early():
    """CP-030 CP-074: capped at maxRetryAfter, 60 s by default."""
    assert after(POST, retry=POOL, status=429, retry_after=90 * NS) == at(60, "429", pause=60)
    short = dataclasses.replace(POOL, max_retry_after=0.4)
    assert after(POST, retry=short, status=429, retry_after=30 * NS) == at(0.4, "429", pause=0.4)


def test_a_hint_over_the_cap_ends_the_call_at_once_and_blocks_the_host():
    """PF-017 PF-018 RA-06: no wait, no early retry; the time is told."""
    retry = Retry(retries=5, max_retry_after=2)
    until = NOW + 120 * NS
    assert after(refused(1)[0], retry=retry, status=429, retry_after=120 * NS) == GiveUp(
        "retry_after", until=until, block=until
    )


def test_a_hint_over_the_cap_is_told_even_when_no_retry_was_left():
    until = NOW + 120 * NS
    for call in (refused(11)[0], replace(GET, replayable=False)):
        assert after(call, status=429, retry_after=120 * NS) == GiveUp("retry_after", until=until, block=until)


def test_a_hint_of_just_the_cap_is_waited_for():
    call, outcome = refused(1, retry_after=60 * NS)
    assert after(call, **outcome) == at(60, "429", pause=60)
    call, outcome = refused(1, retry_after=60 * NS + 1)
    assert after(call, **outcome).reason == "retry_after"


def test_without_a_cap_any_hint_is_waited_for():
    retry = Retry(max_retry_after=None)
    call, outcome = refused(1, retry_after=86_400 * NS)
    assert after(call, retry=retry, **outcome) == at(86_400, "429", pause=86_400)


@pytest.mark.parametrize("status", [503, 500, 408, 425])
def test_a_hint_on_another_retried_status_is_the_least_wait_and_holds_the_host(status):
    """RA-10: honoured on every status that is retried."""
    retry = Retry(backoff=Backoff(base=0.05, jitter=None))
    assert after(retry=retry, status=status, retry_after=2 * NS) == at(2, str(status), pause=2)
    assert after(status=status, retry_after=NS // 2) == at(1, str(status), pause=0.5)


def test_a_hint_on_a_503_does_not_decide_whether_to_retry():
    """PF-020: a POST that may have arrived stays unrepeated, but the host is left alone as it asked."""
    assert after(POST, status=503, retry_after=2 * NS) == GiveUp("method", pause=NOW + 2 * NS)
    assert after(replace(GET, attempts=3), status=503, retry_after=2 * NS) == GiveUp("attempts", pause=NOW + 2 * NS)
    assert after(POST, status=503, retry_after=120 * NS) == GiveUp("method", block=NOW + 120 * NS)


def test_a_fault_holds_the_host_an_hour_at_most_and_the_call_as_long_as_the_server_asked():
    """A 429 tells of a rule, and holds both."""
    hour, day = 3_600 * NS, 86_400 * NS
    patient = Retry(max_retry_after="7d")
    assert after(retry=patient, status=503, retry_after=day) == RetryAt(NOW + day, "503", NOW + hour)
    assert after(retry=patient, status=429, retry_after=day) == RetryAt(NOW + day, "429", NOW + day)
    assert after(status=503, retry_after=day) == GiveUp("retry_after", until=NOW + day, block=NOW + hour)
    assert after(POST, retry=patient, status=503, retry_after=day) == GiveUp("method", pause=NOW + hour)
    assert after(POST, status=503, retry_after=day) == GiveUp("method", block=NOW + hour)
    assert after(status=429, retry_after=day) == GiveUp("retry_after", until=NOW + day, block=NOW + day)


def test_a_503_with_a_hint_over_the_cap_ends_the_call_and_blocks_the_host():
    until = NOW + 120 * NS
    assert after(status=503, retry_after=120 * NS) == GiveUp("retry_after", until=until, block=until)


def test_the_last_429_of_a_call_still_holds_the_host():
    call, outcome = refused(11, retry_after=2 * NS)
    assert after(call, **outcome) == GiveUp("refusals", pause=NOW + 2 * NS)
    assert after(retry=Retry(attempts=1, backoff=PLAIN), status=429) == GiveUp("attempts", pause=NOW + NS)
    assert after(retry=Retry(attempts=1, backoff=lambda info: 1), status=429) == GiveUp("attempts")


def test_a_failure_has_no_hint_even_if_its_headers_had_one():
    assert after(failure="truncated", retry_after=5 * NS) == at(1, "truncated")


def test_a_hint_before_now_counts_as_now():
    """RA-03 RA-04: a wait is never negative."""
    assert after(refused(1)[0], status=429, retry_after=-5 * NS) == at(0, "429", pause=0)


# The caller's deadline


def test_a_hint_past_the_deadline_ends_the_call_at_once_and_only_pauses_the_host():
    """A wait that others can afford: they queue; this call learns the time."""
    call = replace(refused(1)[0], deadline=NOW + NS)
    until = NOW + 5 * NS
    assert after(call, status=429, retry_after=5 * NS) == GiveUp("deadline", until=until, pause=until)
    for left in (NS, 5 * NS):
        call = replace(GET, deadline=NOW + left)
        assert after(call, status=503, retry_after=5 * NS) == GiveUp("deadline", until=until, pause=until)


def test_a_backoff_past_the_deadline_ends_the_call_at_once():
    call = replace(GET, deadline=NOW + NS)
    assert after(call, status=500) == GiveUp("deadline")
    assert after(call, failure="lost", sent="maybe") == GiveUp("deadline")
    refusal = replace(refused(1)[0], deadline=NOW + NS)
    assert after(refusal, status=429) == GiveUp("deadline", pause=NOW + NS)


def test_a_backoff_past_the_deadline_with_a_hint_within_it_tells_no_time():
    call = replace(refused(3)[0], deadline=NOW + 3 * NS)
    assert after(call, status=429, retry_after=NS) == GiveUp("deadline", pause=NOW + 4 * NS)


def test_a_wait_that_ends_before_the_deadline_is_waited():
    assert after(replace(GET, deadline=NOW + NS + 1), status=500) == at(1, "500")


# The caller's function


def test_a_function_is_told_what_happened_and_gives_the_wait():
    """HT-028 HT-029: the index is 0 on the first retry; the answer is a wait or None."""
    told = []

    def waits(info):
        told.append(info)
        return 0.1 * 2**info.index

    retry = Retry(attempts=4, backoff=waits)
    call = replace(GET, started=NOW - 3 * NS)
    assert after(call, retry=retry, status=503) == at(0.1, "503")
    assert after(replace(call, attempts=2), retry=retry, failure="lost", sent="maybe") == at(0.2, "lost")
    assert [(info.index, info.attempts, info.status, info.failure, info.sent) for info in told] == [
        (0, 1, 503, None, "yes"),
        (1, 2, None, "lost", "maybe"),
    ]
    assert told[0].elapsed == 3.0


@pytest.mark.parametrize("answer", [None, False])
def test_a_function_that_says_none_ends_the_call(answer):
    """HT-026 HT-028: a retry happens only when the function gives a wait."""
    retry = Retry(backoff=lambda info: answer)
    assert after(retry=retry, status=500) == GiveUp("backoff")
    assert after(refused(1)[0], retry=retry, status=429, retry_after=NS) == GiveUp("backoff", pause=NOW + NS)


def test_a_function_is_told_the_hint_and_cannot_undercut_it():
    retry = Retry(backoff=lambda info: info.retry_after * 2 if info.refusals > 1 else 0)
    assert after(refused(1)[0], retry=retry, status=429, retry_after=NS) == at(1, "429", pause=1)
    assert after(refused(2)[0], retry=retry, status=429, retry_after=NS) == at(2, "429", pause=2)


def test_a_function_may_give_a_timedelta():
    assert after(retry=Retry(backoff=lambda info: timedelta(seconds=2)), status=500) == at(2, "500")


def test_a_function_that_always_gives_a_wait_is_bounded_by_the_attempts():
    """BJ-07: a wait of 0 for ever and 3 retries make 4 sends."""
    retry = Retry(retries=3, backoff=lambda info: 0)
    decisions = [after(replace(GET, attempts=n), retry=retry, status=500) for n in range(1, 5)]
    assert decisions == [at(0, "500")] * 3 + [GiveUp("attempts")]


@pytest.mark.parametrize("answer", [-1, float("nan"), float("inf"), "1s", True, [1]])
def test_a_function_that_gives_no_wait_is_named(answer):
    def my_schedule(info):
        return answer

    with pytest.raises(OptionsError, match=r"retry\.backoff.*my_schedule returned"):
        after(retry=Retry(backoff=my_schedule), status=500)


# The options


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"attempts": 0}, "attempts"), ({"attempts": 1.5}, "attempts"), ({"attempts": True}, "attempts"), ({"retries": -1}, "retries"),
        ({"attempts": 2, "retries": 1}, "give one of the two"), ({"refusals": -1}, "refusals"), ({"backoff": 3}, "backoff"),
        ({"max_retry_after": -1}, "max_retry_after"), ({"over_cap": "clam"}, "did you mean clamp"), ({"idempotent": "all"}, "idempotent"),
        ({"hold_slot": 1}, "hold_slot"), ({"attemts": 3}, "did you mean attempts"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(options, named):
    with pytest.raises(OptionsError, match=named):
        Retry(**options)


def test_a_retry_is_given_as_such_or_as_a_number_of_retries():
    """PF-032: retries after the first try."""
    retry = Retry(attempts=7)
    assert Retry.of(retry) is retry
    assert Retry.of(2) == Retry(attempts=3)
    assert Retry.of(None) == Retry()


@pytest.mark.parametrize("retry", [{"attempts": 3}, "3", 2.5, Retry])
def test_what_is_no_retry_is_named_as_it_was_given(retry):
    with pytest.raises(OptionsError, match="it needs a Retry") as caught:
        Retry.of(retry)
    assert caught.value.option == "retry"


def test_a_slot_is_given_back_during_waits_unless_asked():
    """CP-082: the request pool keeps it."""
    assert [Retry().hold_slot, Retry(hold_slot=True).hold_slot] == [False, True]


def test_the_longest_wait_taken_from_a_server_is_a_minute_by_default():
    """CP-030: maxRetryAfter is 60000 ms."""
    assert Retry().max_retry_after_ns == 60 * NS
    assert dataclasses.replace(Retry(), max_retry_after="5min").max_retry_after_ns == 300 * NS


# Whatever happens

outcomes = st.one_of(
    st.builds(Outcome, status=st.integers(100, 599), retry_after=st.none() | st.integers(0, 10**14)),
    st.builds(
        Outcome,
        failure=st.sampled_from([*FAILURES, "bad", "blocked", "deadline", "cancelled"]),
        sent=st.sampled_from(["no", "maybe", "yes"]),
    ),
)
calls = st.builds(
    CallState,
    attempts=st.integers(0, 10**6),
    refusals=st.integers(0, 10**6),
    refusals_in_a_row=st.integers(0, 10**6),
    idempotent=st.booleans(),
    keyed=st.booleans(),
    replayable=st.booleans(),
    deadline=st.none() | st.integers(NOW - NS, NOW + 1_000 * NS),
)
retries = st.builds(
    Retry,
    attempts=st.integers(1, 10),
    refusals=st.integers(0, 10),
    backoff=st.sampled_from([Backoff(), PLAIN, Backoff(steps=(1, 3, 10)), lambda info: info.index]),
    max_retry_after=st.none() | st.floats(0, 1_000),
    over_cap=st.sampled_from(["fail", "clamp"]),
    idempotent=st.sampled_from(["methods", "any"]),
)


@given(retry=retries, call=calls, outcome=outcomes, draw=st.floats(0, 1, exclude_max=True))
def test_no_decision_lies_in_the_past_exceeds_a_bound_or_depends_on_anything_else(retry, call, outcome, draw):
    decision = decide(retry, call, outcome, NOW, draw)
    assert decision == decide(retry, call, outcome, NOW, draw)
    if isinstance(decision, Done):
        assert outcome.status is not None
        return
    named = [decision.pause] if isinstance(decision, RetryAt) else [decision.pause, decision.until, decision.block]
    assert all(time is None or time >= NOW for time in named)
    if isinstance(decision, RetryAt):
        apart = outcome.status == 429 and retry.refusals
        assert call.refusals <= retry.refusals if apart else call.attempts < retry.attempts
        assert call.replayable or outcome.sent == "no"
        assert call.deadline is None or decision.at < call.deadline
        assert decision.at >= NOW
        if outcome.status is not None and outcome.retry_after is not None:
            longest = retry.max_retry_after_ns
            asked = outcome.retry_after
            least = asked if longest is None or asked <= longest else longest
            assert decision.at >= NOW + least
            assert retry.over_cap == "clamp" or least == asked


# A function alone


def test_a_function_alone_decides_how_often():
    """HT-026 HT-028 HT-029: it gets the index, 0 on the first retry, and ends the retries by returning no wait."""
    seen = []

    def waits(info):
        seen.append(info.index)
        return 0.5 if info.index < 5 else False

    retry = Retry.of(waits)
    decisions = [after(replace(GET, attempts=sends), retry=retry, status=503) for sends in range(1, 7)]
    assert decisions == [*[at(0.5, "503")] * 5, GiveUp("backoff")]
    assert seen == list(range(6))


def test_a_function_alone_sends_nothing_again_that_may_not_be_repeated():
    assert after(POST, retry=Retry.of(lambda info: 0), status=503) == GiveUp("method")
    assert after(POST, retry=Retry.of(lambda info: 0), failure="connect", sent="no") == at(0, "connect")


def test_a_function_alone_counts_refusals_too_and_never_undercuts_their_wait():
    """HT-029"""
    retry = Retry.of(lambda info: info.index)
    assert after(replace(GET, attempts=3), retry=retry, status=429, retry_after=seconds(9)) == at(9, "429", pause=9)
    assert after(replace(GET, attempts=3), retry=retry, status=429) == at(2, "429", pause=2)


async def waits_later(info):
    return 1


@pytest.mark.parametrize("value", [waits_later, Retry, Backoff(), "3", 1.5, True])
def test_what_is_neither_rules_nor_a_number_nor_a_plain_function_is_refused(value):
    with pytest.raises(OptionsError):
        Retry.of(value)
