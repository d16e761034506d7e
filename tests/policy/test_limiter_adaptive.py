"""HostLimiter with an adaptive control: what the gate tells it, and obeys."""

from __future__ import annotations

import pytest

from comity.policy.adaptive import Adaptive
from comity.policy.feedback import end_attempt, learn
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.pause import NO_CAP
from comity.policy.retry import DONE, Decision, GiveUp, RetryAt
from comity.policy.ticket import NOT_STARTED, State, Ticket
from comity.policy.windows import NEVER

S = 1_000_000_000
MS = 1_000_000
OK = Outcome(status=200)


def host(**policy) -> HostLimiter:
    return HostLimiter(Policy(**policy), 0)


def running(limiter: HostLimiter, now: int, *, started: bool = True) -> Ticket:
    """Return a ticket that was granted, and started, at `now`."""
    ticket = Ticket(5, limiter.meters.ordinary)
    limiter.enqueue(ticket, now)
    assert limiter.admit(now).granted == [ticket]
    if started:
        limiter.started(ticket, now)
    return ticket


def exchange(limiter: HostLimiter, now: int, took: int, outcome: Outcome = OK, decision: Decision = DONE) -> int:
    """Send one and let it end; return the cap then."""
    ticket = running(limiter, now)
    end_attempt(limiter, ticket, outcome, decision, now + took)
    return limiter.cap


def refused(limiter: HostLimiter, now: int, hint: int | None = None) -> bool:
    """Let one be refused, whose call waits for 1 s or as told; return whether a pause began."""
    outcome = Outcome(status=429, retry_after=hint)
    at = now + (S if hint is None else hint)
    return end_attempt(limiter, running(limiter, now), outcome, RetryAt(at, "429", pause=at), now)


def test_without_the_option_nothing_adapts():
    """CP-013: adaptive is off by default."""
    limiter = host()
    assert limiter.policy.adaptive is None
    assert [exchange(limiter, n * 60 * S, took) for n, took in enumerate((150 * MS, 50 * S, 50 * S, 50 * S))] == [
        10
    ] * 4


def test_the_gate_admits_what_the_control_learned():
    """CP-016, CP-019, CP-024: 180 ms three times, then 1500: 9 of 10; then one healthy: 10."""
    limiter = host(adaptive=Adaptive(algorithm="ema", breach_limit=1))
    assert [exchange(limiter, n * S, took * MS) for n, took in enumerate((180, 180, 180, 1_500, 180))] == [
        10, 10, 10, 9, 10,
    ]  # fmt: skip


@pytest.mark.parametrize(("use_ttfb", "cap"), [(True, 10), (False, 9)])
def test_the_time_to_the_first_byte_or_that_of_the_whole_answer_is_sampled(use_ttfb, cap):
    """CP-014: a long download is no congestion, unless the whole answer is what counts."""
    limiter = host(adaptive=Adaptive(algorithm="ema", breach_limit=1, use_ttfb=use_ttfb))
    exchange(limiter, 0, 150 * MS)
    ticket = running(limiter, S)
    ticket.answered_at = S + 150 * MS
    end_attempt(limiter, ticket, OK, DONE, 10 * S)
    assert limiter.cap == cap
    assert running(limiter, 11 * S).answered_at == NOT_STARTED


def test_auto_begins_with_two_at_once_and_doubles():
    limiter = host(adaptive=True, concurrency=6)
    now, caps = 0, [limiter.cap]
    while limiter.cap < 6:
        for ticket in [running(limiter, now) for _ in range(limiter.cap)]:
            end_attempt(limiter, ticket, OK, DONE, now + 100 * MS)
        now += 100 * MS
        caps.append(limiter.cap)
    assert sorted(set(caps)) == [2, 4, 6]


def test_a_refusal_without_a_time_is_left_to_the_rate_law():
    """PF-015: one 429 law at a time: no learned gap, no pause, a probe after a quarter of a second."""
    limiter = host(adaptive="auto")
    assert refused(limiter, S) is False
    assert (limiter.gap.width, limiter.hold, limiter.pause.cap) == (0, 0, NO_CAP)
    assert limiter.earliest(S) == S + 250 * MS
    assert limiter.grant_at_once(Ticket(5, limiter.meters.ordinary), S + 249 * MS) is False
    assert limiter.take(S) is False
    assert limiter.idle(S + 249 * MS)


def test_a_refusal_that_names_a_time_pauses_the_host():
    limiter = host(adaptive="auto")
    assert refused(limiter, S, 4 * S) is True
    assert limiter.hold == 5 * S


def test_with_ema_a_refusal_pauses_the_host_and_widens_its_gap_if_that_is_asked_for():
    """PF-015"""
    limiter = host(adaptive="ema", learn="gap")
    assert refused(limiter, S) is True
    assert (limiter.gap.width, limiter.hold) == (250 * MS, 2 * S)


def test_a_blocked_host_is_blocked_with_auto_too():
    limiter = host(adaptive="auto")
    decision = GiveUp("retry_after", until=90 * S, block=90 * S)
    assert end_attempt(limiter, running(limiter, 0), Outcome(status=429, retry_after=90 * S), decision, 0) is True
    assert limiter.pause.blocked_until == 90 * S


def test_after_a_pause_at_most_the_rate_starts_in_any_second():
    """60 are queued at 10/s while a 429 pauses the host for 4 s: then at most 10 start in any second."""
    limiter = host(adaptive=True, rate="10/s", concurrency=50)
    refused(limiter, 0, 4 * S)
    tickets = [Ticket(5, limiter.meters.ordinary) for _ in range(60)]
    for ticket in tickets:
        limiter.enqueue(ticket, MS)
    starts: list[int] = []
    under_way: list[tuple[int, Ticket]] = []
    now = MS
    while now < 20 * S:
        admission = limiter.admit(now)
        for ticket in admission.granted:
            limiter.started(ticket, now)
            starts.append(now)
            under_way.append((now + 100 * MS, ticket))
        now = min([admission.wake_at, *(end for end, _ in under_way)])
        for end, ticket in [each for each in under_way if each[0] <= now]:
            under_way.remove((end, ticket))
            end_attempt(limiter, ticket, OK, DONE, now)
    assert len(starts) == 60
    assert starts[0] >= 4 * S
    assert max(sum(start <= other < start + S for other in starts) for start in starts) <= 10


def test_a_learned_rate_is_worth_keeping():
    limiter = host(adaptive="auto")
    for n in range(20):
        exchange(limiter, n * 10 * MS, 5 * MS)
    refused(limiter, S)
    exchange(limiter, 2 * S, 100 * MS)
    assert limiter.adaptive is not None
    assert limiter.adaptive.rate is not None
    assert not limiter.idle(60 * S)


@pytest.mark.parametrize("started", [True, False])
def test_an_attempt_that_was_cut_short_teaches_nothing_and_gives_back_its_place(started):
    limiter = host(adaptive="auto")
    ticket = running(limiter, 0, started=started)
    limiter.withdraw(ticket, 50 * S)
    assert (ticket.state, ticket.start, limiter.running, limiter.cap) == (State.WITHDRAWN, None, 0, 2)


def test_what_the_head_of_an_answer_taught_its_end_does_not_teach_again():
    limiter = host(adaptive=Adaptive(algorithm="ema", initial_concurrency=5))
    ticket = running(limiter, 0)
    learn(limiter, ticket, OK, DONE, 10 * MS)
    assert limiter.cap == 6
    end_attempt(limiter, ticket, OK, DONE, 50 * S)
    assert limiter.cap == 6


@pytest.mark.parametrize(
    ("outcome", "opens"),
    [
        (Outcome(status=503), True),
        (Outcome(status=408), True),
        (Outcome(failure="timeout"), True),
        (Outcome(failure="lost"), True),
        (Outcome(failure="connect", sent="no"), True),
        (Outcome(failure="truncated"), True),
        (Outcome(failure="cancelled"), False),
        (Outcome(failure="deadline"), False),
        (Outcome(failure="bad"), False),
        (Outcome(status=404), False),
        (Outcome(status=200), False),
    ],
)
def test_six_failures_in_a_row_leave_single_probes(outcome, opens):
    limiter = host(adaptive="auto")
    for n in range(6):
        exchange(limiter, n * MS, MS // 2, outcome, GiveUp("attempts") if opens else DONE)
    assert (limiter.earliest(S // 10) > S // 10) is opens


def test_a_drain_that_nothing_ends_is_ended_by_time():
    """Whoever waits then is woken for it."""
    limiter = host(adaptive=Adaptive(initial_concurrency=8))
    busy = [running(limiter, 15 * S - MS) for _ in range(4)]
    running(limiter, 15 * S)
    assert limiter.cap == 3
    limiter.enqueue(Ticket(5, limiter.meters.ordinary), 15 * S + MS)
    assert limiter.admit(15 * S + MS).wake_at == 17 * S + 1
    assert len(limiter.admit(17 * S + 1).granted) == 1
    assert limiter.cap == 8
    assert limiter.admit(17 * S + 2).wake_at == NEVER
    assert len(busy) == 4


def test_a_request_that_keeps_its_slot_between_attempts_is_a_start_each_time():
    limiter = host(adaptive="auto")
    ticket = running(limiter, 0)
    end_attempt(limiter, ticket, Outcome(status=503), RetryAt(S, "503"), MS, keep_slot=True)
    ticket.not_before = S
    limiter.enqueue(ticket, MS)
    assert limiter.admit(S).granted == [ticket]
    assert ticket.start == (1, 1, S)


def test_without_a_limit_auto_finds_its_own():
    limiter = host(adaptive="auto", concurrency=None)
    assert limiter.cap == 2
