"""Conversation: the history of a call, and what observers are told of it; virtual time, on both engines."""

from __future__ import annotations

import asyncio

import pytest

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange
from comity.engine.hosts import Hosts
from comity.engine.thread_engine import ThreadEngine
from comity.errors import OptionsError, RequestError
from comity.policy.attempt import Timings
from comity.policy.backoff import Backoff
from comity.policy.outcome import Outcome
from comity.policy.retry import CallState, GiveUp, Retry, RetryAt
from comity.policy.units import NS, seconds
from comity.testing.virtual_clock import EPOCH, VirtualClock
from tests.engine.log import idle
from tests.engine.scenarios import Asked, Play, Scenario, answers, policy, refused

on_both_engines = pytest.mark.parametrize("engine", ["async", "threads"])


def play(engine, *asked, observe=None, **scenario):
    played = Play(Scenario(name="", asked=asked, **scenario), observe)
    return played.on(engine), played


# History


@on_both_engines
def test_every_attempt_is_in_the_history_of_a_success(engine):
    """HT-014 HT-015 HT-016 HT-017: hang-up, 500, 200: three attempts, two of them failed before."""
    (seen,), _ = play(engine, Asked(gets=answers("lost", 500, 200)), policy=policy())
    first, second, third = seen.attempts
    assert [attempt.number for attempt in seen.attempts] == [1, 2, 3]
    assert (first.status, first.error, first.sent, first.decision) == (None, "RequestError: lost", "maybe", "retry")
    assert (second.status, second.error, second.decision) == (500, None, "retry")
    assert (third.status, third.error, third.decision) == (200, None, "done")
    assert [attempt.waited for attempt in seen.attempts] == [0, 1, 2]
    assert [attempt.started_at * NS - EPOCH for attempt in seen.attempts] == pytest.approx([0, 1.1e9, 3.2e9], abs=1e6)


@on_both_engines
def test_every_attempt_is_in_the_history_of_a_failure(engine):
    """HT-014 HT-016 HT-018: hang-up, 429, 408, then the limit: error 408, three attempts, two before it."""
    (seen,), _ = play(engine, Asked(gets=answers("lost", refused(1), 408)), policy=policy(attempts=3, refusals=0))
    assert seen.ends == "408 attempts"
    assert [attempt.status for attempt in seen.attempts] == [None, 429, 408]
    assert [attempt.retry_after for attempt in seen.attempts] == [None, 1, None]
    assert [attempt.decision for attempt in seen.attempts] == ["retry", "retry", "attempts"]


@on_both_engines
def test_nothing_stands_before_the_only_attempt(engine):
    (seen,), _ = play(engine, Asked(gets=answers(404)))
    assert len(seen.attempts) == 1


@on_both_engines
def test_the_history_is_on_the_error_of_a_call_that_gets_no_further_turn(engine):
    asked = (Asked(gets=answers(500), deadline=30), Asked(at=0.2, gets=answers(200, takes=100)))
    (seen, _), _ = play(engine, *asked, policy=policy(concurrency=1))
    assert (seen.ends, seen.until) == ("TimedOut", 30)
    assert [attempt.status for attempt in seen.attempts] == [500]
    assert str(seen.error) == "the deadline of 30 s passed before its turn came; it was not sent again"


@on_both_engines
def test_time_in_the_queue_is_told_apart_from_time_between_attempts(engine):
    """PF-024: the queue is a phase of its own, before the attempt's clock starts."""
    asked = (Asked(gets=answers(500, 200)), Asked(at=0.05, gets=answers(200, takes=2)))
    (seen, other), _ = play(engine, *asked, policy=policy(concurrency=1))
    assert [(attempt.waited, attempt.timings.queue) for attempt in seen.attempts] == [
        (0, 0),
        (pytest.approx(2), pytest.approx(1)),
    ]
    assert other.attempts[0].timings.queue == pytest.approx(0.05, abs=1e-5)


def test_the_phases_of_the_transport_are_kept():
    clock = VirtualClock()
    phases = Timings(pool=0.1, dns=0.2, connect=0.3, tls=0.4, upload=0.5, response=0.6, download=0.7)

    async def send(_slot):
        return Exchange(outcome=Outcome(status=200), timings=phases)

    settled = clock.run(AsyncEngine(Hosts(clock=clock)).run(Call(host="a", retry=Retry()), send))
    assert settled.attempts[0].timings == phases


def test_until_is_told_when_the_server_wants_no_request_for_longer_than_allowed():
    """PF-017: on the engine's clock; the client makes a time of day of it."""
    (seen,), played = play("async", Asked(gets=answers(refused(100))), policy=policy(max_retry_after=60))
    assert seen.settled.until == played.began + seconds(100.1)


def test_a_blocked_host_says_until_when():
    """PF-018: the error carries the time of day."""
    asked = (Asked(gets=answers(refused(100))), Asked(at=50.1))
    (_, seen), _ = play("async", *asked, policy=policy(max_retry_after=60))
    assert seen.error.until.timestamp() * NS == pytest.approx(EPOCH + seconds(100.1), abs=1e6)
    assert seen.error.retry_after == pytest.approx(50, abs=1e-3)
    assert "api.example wants no request before 2023-11-14 22:15:00 UTC (50 s from now)" in str(seen.error)


def test_a_paused_host_says_that_the_wait_is_longer_than_this_request_may():
    """The server named no time: it wants nothing in particular, and others may wait."""
    asked = (Asked(gets=answers(429, 200)), Asked(at=0.2, deadline=0.3))
    (_, seen), _ = play("async", *asked, policy=policy())
    assert "api.example is paused after a refusal until" in str(seen.error)
    assert "longer than this request may wait" in str(seen.error)


# What the server sees is what is counted


@on_both_engines
def test_every_send_is_counted_and_told_once(engine):
    """RY-03: 20 calls, each failing first: 40 sends, 40 counted, 40 events of each kind."""
    events = []
    seen, played = play(
        engine, *(Asked(gets=answers(500, 200)) for _ in range(20)), policy=policy(), observe=events.append
    )
    host = played.hosts.stats().hosts["api.example"]
    assert sum(len(call.starts) for call in seen) == 40
    assert (host.started, host.retried, host.failed, host.succeeded) == (40, 20, 20, 20)
    assert [event.type for event in events].count("started") == 40
    assert [event.type for event in events].count("finished") == 40


# Events


def steps(events, *names):
    """The events, without what depends on the test's own times."""
    return [(event.type, *(getattr(event, name) for name in names)) for event in events]


@on_both_engines
def test_the_steps_of_a_retried_call_are_told_in_order(engine):
    """PF-005: type, host, status or error, and the wait."""
    events = []
    asked = Asked(gets=answers("lost", 500, 200))
    play(engine, asked, policy=policy(concurrency=1), observe=events.append)
    assert {event.host for event in events} == {"api.example"}
    assert steps(events, "number", "status", "error", "wait", "reason") == [
        ("started", 1, None, None, 0, ""),
        ("finished", 1, None, "RequestError: lost", None, "retry"),
        ("retrying", 2, None, "RequestError: lost", 1, "lost"),
        ("started", 2, None, None, 1, ""),
        ("finished", 2, 500, None, None, "retry"),
        ("retrying", 3, 500, None, 2, "500"),
        ("started", 3, None, None, 2, ""),
        ("finished", 3, 200, None, None, "done"),
    ]


@on_both_engines
def test_a_pause_is_told_once_and_each_retry_that_waits_for_it(engine):
    """PF-005: a 429 of an episode."""
    events = []
    asked = (Asked(gets=answers(refused(2), 200)), Asked(gets=answers(refused(2), 200)))
    play(engine, *asked, policy=policy(concurrency=2), observe=events.append)
    assert steps(events, "number", "status").count(("paused", 1, 429)) == 1
    assert steps(events, "number").count(("retrying", 2)) == 2
    assert next(event.wait for event in events if event.type == "paused") == pytest.approx(2)


@on_both_engines
def test_a_block_and_what_it_ends_are_told(engine):
    """PF-005: blocked, and failed with the reason, for each call that it ends."""
    events = []
    asked = (Asked(gets=answers(refused(100))), Asked(at=0.05))
    play(engine, *asked, policy=policy(concurrency=1, max_retry_after=60), observe=events.append)
    told = steps(events, "number", "reason")
    assert told[:5] == [
        ("started", 1, ""),
        ("queued", 1, ""),
        ("finished", 1, "retry_after"),
        ("blocked", 1, ""),
        ("failed", 1, "retry_after"),
    ]
    assert told[5:] == [("failed", 0, "HostBlocked")]
    assert next(event.wait for event in events if event.type == "blocked") == pytest.approx(100)


@pytest.mark.parametrize(
    ("cancel", "told"),
    [
        (0.05, [("started", 1, ""), ("failed", 1, "cancelled")]),
        (0.5, [("started", 1, ""), ("finished", 1, "retry"), ("retrying", 2, "500"), ("failed", 1, "cancelled")]),
    ],
)
def test_a_cancelled_call_is_told_to_have_ended(cancel, told):
    events = []
    play("async", Asked(gets=answers(500, 200), cancel=cancel), policy=policy(), observe=events.append)
    assert steps(events, "number", "reason") == told


@on_both_engines
def test_a_turn_that_did_not_come_is_told(engine):
    events = []
    asked = (Asked(gets=answers(200, takes=5)), Asked(queue_timeout=1))
    play(engine, *asked, policy=policy(concurrency=1), observe=events.append)
    assert ("failed", 0, "QueueTimeout") in steps(events, "number", "reason")


def test_time_of_day_is_on_every_event():
    events = []
    play("async", Asked(gets=answers(500, 200)), policy=policy(), observe=events.append)
    assert [round(event.at * NS - EPOCH, -6) / NS for event in events] == pytest.approx(
        [0, 0.1, 0.1, 1.1, 1.2], abs=1e-2
    )


# Faults in what the caller gave


@on_both_engines
def test_a_backoff_function_that_returns_nonsense_ends_the_call_with_its_name(engine):
    """CP-078: invalid arguments are raised, not retried; nothing stays behind."""

    def nonsense(info):
        return "soon"

    played = Play(Scenario(name="", policy=policy(backoff=nonsense), asked=(Asked(gets=answers(500)),)))
    with pytest.raises(OptionsError, match="nonsense"):
        played.on(engine)
    assert played.stats() == (0, 0)


@on_both_engines
@pytest.mark.parametrize("cost", [{"tokens": 5}, 2.5, -1])
def test_a_cost_that_cannot_be_is_refused_before_anything_is_queued(engine, cost):
    """CP-078: raised at once, nothing sent."""
    played = Play(Scenario(name="", asked=(Asked(cost=cost),)))
    with pytest.raises(OptionsError, match="cost"):
        played.on(engine)
    assert played.seen[0].starts == []
    assert played.hosts.gate("api.example").calls == 1


def test_an_error_of_the_transport_itself_gives_everything_back():
    clock = VirtualClock()
    hosts = Hosts(clock=clock)

    async def fails(slot):
        slot.sent()
        raise LookupError("a fault in the transport")

    def fails_in_a_thread(slot):
        raise StopIteration

    with pytest.raises(LookupError):
        clock.run(AsyncEngine(hosts).run(Call(host="a", retry=Retry()), fails))
    with pytest.raises(RuntimeError, match="StopIteration"):
        ThreadEngine(hosts).run(Call(host="a", retry=Retry()), fails_in_a_thread)
    assert idle(hosts)
    assert hosts.gate("a").calls == 1


# Slots


def test_saying_sent_and_answered_again_changes_nothing():
    clock = VirtualClock()
    engine = AsyncEngine(Hosts(policy(rate="1/10s"), clock=clock))

    async def send(slot):
        for _ in range(2):
            slot.sent()
            slot.answered()
            await asyncio.sleep(1)
        return Exchange(outcome=Outcome(status=200))

    async def main():
        await engine.run(Call(host="a", retry=Retry()), send)
        settled = await engine.run(Call(host="a", retry=Retry()), send)
        return settled.attempts[0].waited

    assert clock.run(main()) == 8


def told(clock, hosts, *, retry=None, status=429, wait="5", body=1.0, ends=None):
    """Make a call whose answer's head comes at once and whose body takes a second; return how it ended."""

    async def send(slot):
        slot.sent()
        if slot.number == 2:
            return Exchange(outcome=Outcome(status=200))
        for _ in range(2):
            slot.hear(status, [] if wait is None else [("Retry-After", wait)])
        await asyncio.sleep(body)
        return Exchange(outcome=ends or Outcome(status=status), error=RequestError("cut"))

    return AsyncEngine(hosts, draw=lambda: 0.0).run(Call(host="a", retry=retry or Retry(), idempotent=True), send)


@pytest.mark.parametrize("wait", ["5", None])
def test_a_host_is_held_from_the_head_of_a_refusal_on(wait):
    """PF-014 PF-015: one refusal, one episode, counted once, though it was told at the head and ends later."""
    clock, events = VirtualClock(), []
    hosts = Hosts(policy(learn="gap", backoff=Backoff(base=3, jitter=None)), clock=clock, observe=events.append)

    async def main():
        call = asyncio.create_task(told(clock, hosts, retry=hosts.rules.default.retry, wait=wait))
        await asyncio.sleep(0.5)
        (during,) = hosts.stats().hosts.values()
        settled = await call
        (after,) = hosts.stats().hosts.values()
        return during, settled, after

    during, settled, after = clock.run(main())
    first, second = settled.attempts
    pause = 5 if wait else 3
    assert (during.paused_for, during.running, during.refused) == (pytest.approx(pause - 0.5), 1, 0)
    assert (first.status, first.error, second.waited) == (429, "RequestError: cut", pytest.approx(pause - 1))
    assert (after.refused, after.running, after.gap) == (1, 0, 0.25)
    assert [event.type for event in events].count("paused") == 1
    assert next(event.wait for event in events if event.type == "paused") == pytest.approx(pause - 1)


@pytest.mark.parametrize("failure", ["truncated", "timeout", "bad", "lost", "deadline"])
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_what_the_head_said_decides_whatever_becomes_of_the_body(status, failure):
    clock = VirtualClock()
    hosts = Hosts(policy(), clock=clock)
    settled = clock.run(told(clock, hosts, status=status, ends=Outcome(failure=failure, sent="maybe")))
    first, second = settled.attempts
    assert (first.status, first.retry_after, first.sent, first.decision) == (status, 5, "yes", "retry")
    assert second.waited == pytest.approx(4)


@pytest.mark.parametrize("status", [202, 302, 404])
def test_the_head_of_another_status_decides_nothing(status):
    clock = VirtualClock()
    hosts = Hosts(policy(), clock=clock)
    settled = clock.run(told(clock, hosts, status=status, ends=Outcome(failure="bad")))
    assert (settled.outcome.failure, settled.reason, len(settled.attempts)) == ("bad", "bad", 1)
    assert hosts.stats().hosts["a"].paused_for == 0


def test_a_pause_may_be_over_before_the_body_is_there():
    clock = VirtualClock()
    events = []
    hosts = Hosts(policy(), clock=clock, observe=events.append)
    settled = clock.run(told(clock, hosts, body=9.0))
    assert settled.attempts[1].waited == 0
    assert [event.wait for event in events if event.type in {"paused", "retrying"}] == [0, 0]


def test_a_backoff_function_that_fails_ends_the_call_and_not_the_transport():
    clock = VirtualClock()
    hosts = Hosts(policy(), clock=clock)

    def fails(_info):
        raise OSError("the caller's")

    with pytest.raises(OSError, match="the caller's"):
        clock.run(told(clock, hosts, retry=Retry(backoff=fails)))
    assert idle(hosts)


def test_a_call_cancelled_after_the_head_of_a_refusal_leaves_the_pause():
    clock = VirtualClock()
    hosts = Hosts(policy(), clock=clock)

    async def main():
        call = asyncio.create_task(told(clock, hosts))
        await asyncio.sleep(0.5)
        call.cancel()
        await asyncio.wait([call])
        return hosts.stats().hosts["a"]

    host = clock.run(main())
    assert (host.running, host.cancelled, host.paused_for) == (0, 1, pytest.approx(4.5))


def test_settling_a_slot_corrects_its_cost():
    clock = VirtualClock()
    engine = AsyncEngine(Hosts(policy(rate="100 tokens/min"), clock=clock))

    async def send(slot):
        slot.sent()
        slot.settle({"tokens": 10})
        return Exchange(outcome=Outcome(status=200))

    async def main():
        for _ in range(2):
            settled = await engine.run(Call(host="a", retry=Retry(), cost={"tokens": 90}), send)
        return settled.attempts[0].waited

    assert clock.run(main()) == 0


def test_what_was_never_sent_costs_nothing():
    clock = VirtualClock()
    engine = AsyncEngine(Hosts(policy(rate="1/h", attempts=3, backoff=Backoff(base=0)), clock=clock))

    async def send(slot):
        if slot.number < 3:
            return Exchange(outcome=Outcome(failure="connect", sent="no"), error=RequestError("no connection"))
        slot.sent()
        return Exchange(outcome=Outcome(status=200))

    settled = clock.run(engine.run(Call(host="a", retry=engine.hosts.rules.default.retry), send))
    assert [attempt.waited for attempt in settled.attempts] == [0, 0, 0]


# Books kept elsewhere


def judged(so_far, outcome, **retry):
    """Return how a call ends that came with what it went through before, and how long that took, ns."""
    clock = VirtualClock()
    engine, sent = AsyncEngine(Hosts(policy(), clock=clock)), []

    async def send(slot):
        sent.append(slot.number)
        slot.sent()
        return Exchange(outcome=outcome)

    call = Call(host="h", retry=Retry(backoff=Backoff(base=1, jitter=None), **retry), so_far=so_far)
    began = clock.now()
    settled = clock.run(engine.run(call, send))
    assert sent == [1]
    return settled, clock.now() - began, began


def test_a_call_whose_books_are_kept_elsewhere_is_sent_once_and_told_when_to_come_again():
    so_far = CallState(attempts=2, idempotent=True)
    settled, took, began = judged(so_far, Outcome(status=503), attempts=4)
    assert (settled.reason, settled.decision, took) == ("retry", RetryAt(began + 4 * NS, "503"), 0)


def test_what_it_went_through_before_counts_against_its_attempts():
    settled, _, _ = judged(CallState(attempts=3, idempotent=True), Outcome(status=503), attempts=4)
    assert settled.decision == GiveUp("attempts")


def test_that_it_may_be_repeated_is_written_in_the_same_books():
    settled, _, _ = judged(CallState(), Outcome(status=503), attempts=4)
    assert settled.decision == GiveUp("method")
