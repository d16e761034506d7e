"""Auto: an adaptive control against modelled upstreams with endless work. Times are seconds of virtual time."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, strategies as st

from comity.policy.auto import Auto
from comity.policy.controller import Ending
from comity.policy.pause import NO_CAP
from comity.policy.units import seconds
from tests.policy.upstream_model import Answer, Traffic, bucket, crowded, pool, window


def auto(maximum: int = 100, *, minimum: int = 1, initial: int | None = None) -> Auto:
    return Auto(minimum=minimum, maximum=maximum, initial=initial, now=0)


def steady(_now: float) -> float:
    return 0.1


@pytest.mark.parametrize("workers", [2, 10, 40])
def test_concurrency_finds_what_an_upstream_serves_at_once(workers):
    """CP-088: hardly more is under way than is served, so no queue grows there and no timeout comes near."""
    traffic = Traffic(auto(), pool(lambda _: workers, steady)).run(60)
    assert traffic.good(20, 60) > 0.9 * workers / 0.1
    assert traffic.control.limit < 1.5 * workers + 3
    assert 0.08e9 < traffic.control.floor < 0.13e9


def test_concurrency_falls_when_latency_rises_under_load_and_comes_back():
    """CP-088, AD-03: with a quarter of the workers left the limit falls within two seconds, before anything fails."""
    traffic = Traffic(auto(), pool(lambda now: 6 if 40 <= now < 80 else 24, steady)).run(110)
    assert traffic.least_cap(42, 80) < 12
    assert traffic.good(50, 80) > 0.85 * 60
    assert traffic.good(90, 110) > 0.9 * 240


def test_a_lasting_rise_of_latency_does_not_pin_concurrency():
    """CP-088: 120 ms become 300 ms for good, without a queue: within seconds everything may run again."""
    traffic = Traffic(auto(32), pool(lambda _: 10_000, lambda now: 0.12 if now < 37 else 0.3)).run(60)
    assert traffic.good(20, 37) > 0.9 * 32 / 0.12
    assert traffic.good(45, 60) > 0.9 * 32 / 0.3


def test_rare_fast_answers_do_not_become_the_floor():
    """AD-01: mean 100 ms, 30 ms now and then: the limit stays where it started, at all that may run."""
    count = Counter[str]()

    def serve(_now: float, _running: int) -> Answer:
        count["n"] += 1
        return (0.03 if count["n"] % 100 == 0 else 0.095 + count["n"] % 11 / 1_000), Ending.OK, None

    traffic = Traffic(auto(10, initial=10), serve).run(14)
    assert traffic.least_cap(0, 14) == 10


def test_latency_that_grows_slowly_is_noticed():
    """AD-05: 50 ms and 1 % more with every call: the limit is reduced before latency is five times what it was."""
    took = 0.05

    def serve(_now: float, _running: int) -> Answer:
        nonlocal took
        took *= 1.01
        return took, Ending.OK, None

    traffic = Traffic(auto(10, initial=10), serve)
    while took < 0.25:
        traffic.run(traffic.now + 0.01)
    assert traffic.control.limit < 10


def test_answers_that_are_all_alike_are_no_riddle():
    control = Traffic(auto(8), lambda _now, _running: (0.01, Ending.OK, None)).run(120).control
    assert (control.limit, control.floor) == (8.0, pytest.approx(0.01e9))


def test_latencies_of_two_kinds_do_not_look_like_a_queue():
    count = Counter[str]()

    def serve(_now: float, _running: int) -> Answer:
        count["n"] += 1
        return (0.2 if count["n"] * 7 % 5 == 0 else 0.02), Ending.OK, None

    traffic = Traffic(auto(32), serve).run(40)
    assert traffic.good(20, 40) > 0.8 * 32 / 0.056


def test_clients_that_share_an_upstream_settle_at_equal_shares():
    serve = pool(lambda _: 40, steady)
    clients = [Traffic(auto(), serve) for _ in range(4)]
    for step in range(6_000):
        for client in clients:
            client.run(step / 100)
    shares = [client.good(30, 60) for client in clients]
    assert sum(shares) > 0.85 * 400
    assert min(shares) > 0.4 * max(shares)


@pytest.mark.parametrize(("rate", "burst"), [(40, 40), (8, 30)])
def test_the_pace_finds_the_rate_of_a_bucket(rate, burst):
    traffic = Traffic(auto(64), bucket(lambda _: rate, burst)).run(120)
    assert traffic.good(30, 120) > 0.93 * rate
    assert traffic.refused(30, 120) < 0.03 * rate * 90
    assert traffic.control.rate == pytest.approx(rate, rel=0.1)


def test_the_pace_follows_a_rate_that_changes():
    traffic = Traffic(auto(64), bucket(lambda now: 15 if 60 <= now < 120 else 60, 20)).run(180)
    assert traffic.good(70, 120) > 0.9 * 15
    assert traffic.good(140, 180) > 0.85 * 60


def test_a_refusal_that_names_a_time_is_never_one_of_too_many_at_once():
    control = auto(initial=4)
    starts = [control.begin(n, 0) for n in range(1, 5)]
    control.end(starts[3], seconds(1), Ending.REFUSED, None, seconds(3))
    assert (control.cap, control.until, control.refused) == (4, seconds(4), True)


@pytest.mark.parametrize("hint", [False, True])
def test_the_pace_uses_a_fixed_window_up(hint):
    traffic = Traffic(auto(64), window(300, 10, hint=hint)).run(120)
    assert traffic.good(20, 120) > 0.9 * 30
    assert traffic.refused(20, 120) < 0.05 * 3_000


def test_a_burst_of_fast_refusals_never_raises_concurrency():
    """CP-088: a refusal after 5 ms is no headroom."""
    control = auto(initial=4)
    for n in range(500):
        start = control.begin(1, seconds(n))
        control.end(start, seconds(n) + 5_000_000, Ending.REFUSED, 5_000_000, None)
        assert control.cap <= 4
        assert control.limit <= 4


def test_after_a_long_wait_the_queue_is_not_released_at_once():
    """A server of about 10/s that asked to wait 4 s: what waits then starts about so fast."""
    serve = bucket(lambda _: 10.0, 10, hint=4.0)
    traffic = Traffic(auto(64), serve).run(40)
    after = [at for at in traffic.starts if 1 < at < 9.5]
    assert len(after) > 40
    assert max(sum(at <= other < at + 1 for other in after) for at in after) <= 12


def test_too_many_at_once_caps_concurrency_and_not_the_rate():
    traffic = Traffic(auto(40), crowded(4)).run(120)
    assert traffic.good(10, 120) > 0.85 * 4
    assert traffic.refused(10, 120) < 15
    assert traffic.control.rate is None


def outage(now: float, took: float, ending: Ending) -> Answer:
    return (took, ending, None) if 20 <= now < 50 else (0.1, Ending.OK, None)


@pytest.mark.parametrize(("took", "ending"), [(0.002, Ending.FAILED), (5.0, Ending.TIMED_OUT)])
def test_an_outage_is_probed_and_left_within_seconds(took, ending):
    traffic = Traffic(auto(16), lambda now, _: outage(now, took, ending)).run(70)
    assert sum(30 <= at < 50 for at in traffic.starts) < 12
    assert traffic.good(60, 70) > 0.8 * 160


def test_single_failures_do_not_slow_a_healthy_upstream():
    count = Counter[str]()

    def serve(_now: float, _running: int) -> Answer:
        count["n"] += 1
        return (0.1, Ending.FAILED if count["n"] % 20 == 0 else Ending.OK, None)

    assert Traffic(auto(16), serve).run(40).good(20, 40) > 0.85 * 160


def test_starts_that_came_to_nothing_teach_nothing_and_hold_up_nothing():
    control = auto(8)
    for n in range(200):
        start = control.begin(2, n * 1_000_000)
        control.end(start, n * 1_000_000, Ending.NOTHING, None, None)
    assert (control.cap, control.floor, control.until) == (2, 0.0, 0)


@pytest.mark.parametrize(("minimum", "maximum", "initial", "cap"), [(1, 1, None, 1), (5, 9, None, 5), (1, 9, 7, 7)])
def test_it_starts_at_two_or_where_it_is_told(minimum, maximum, initial, cap):
    assert auto(maximum, minimum=minimum, initial=initial).cap == cap


def test_the_limit_never_leaves_its_bounds():
    traffic = Traffic(auto(12, minimum=3), pool(lambda now: 1 if now > 20 else 50, steady)).run(60)
    caps = {cap for _, cap in traffic.caps}
    assert min(caps) >= 3
    assert max(caps) == 12


def test_a_drain_that_does_not_come_back_ends_unfinished():
    """Long polls hold the drain up, and nothing comes back that could end it: it is over after two seconds."""

    def serve(now: float, running: int) -> Answer:
        return (60.0 if 14.9 < now < 16 else 0.1), Ending.OK, None

    traffic = Traffic(auto(20, initial=20), serve).run(30)
    assert traffic.control.cap >= 18
    assert traffic.good(20, 30) > 0


@given(
    maximum=st.sampled_from([1, 3, 20, NO_CAP]),
    scale=st.sampled_from([0, 1, 10**7, 10**11]),
    seed=st.integers(0, 10**6),
)
def test_whatever_comes_back_the_cap_stays_in_bounds_and_no_start_is_put_off_for_ever(maximum, scale, seed):
    control, now, under_way, chance = auto(maximum), 0, [], Random(seed)
    for _ in range(200):
        now += int(chance.expovariate(1) * chance.choice([1, 10**6, 10**9]))
        if control.wake < now:
            control.tick(now)
        if len(under_way) < min(control.cap, 100):
            under_way.append(control.begin(len(under_way) + 1, now))
        if under_way and chance.random() < 0.6:
            start = under_way.pop(chance.randrange(len(under_way)))
            latency, hint = chance.choice([None, 0, scale]), chance.choice([None, 0, seconds(60)])
            control.end(start, now, chance.choice(list(Ending)), latency, hint)
        assert 1 <= control.cap <= maximum
        assert 1 <= control.limit <= maximum
        assert control.until < now + seconds(600)
