"""`comity simulate`: the real client against an upstream in virtual time."""

from __future__ import annotations

import pytest

from comity import OptionsError, Policy, Rate
from comity.cli.simulation import simulate
from tests.command import comity


def test_the_right_rate_wastes_nothing_and_takes_the_time_that_the_limit_needs():
    done = simulate("window 20/s latency 5ms", Policy(rate=Rate(20, 1, measured="server")), 200)
    assert (done.ok, done.waste) == (200, 0.0)
    assert 9.0 < done.took / 1e9 < 9.3
    assert "waste     0.0% of 200 sent" in "\n".join(done.lines())


def test_the_same_seed_is_the_same_run():
    lines = [
        list(simulate("bucket 40/s errors 5% jitter 30ms", Policy(), 120, seed=seed).lines()) for seed in (1, 1, 2)
    ]
    assert lines[0] == lines[1] != lines[2]


def test_every_attempt_is_counted_and_every_request_ends():
    done = simulate("bucket 10/s burst 10 errors 10%", Policy(concurrency=5), 200)
    assert done.sent == done.model.accepted + done.model.refused + done.model.failed
    assert done.ok + sum(done.failures.values()) == 200
    assert sum(span.accepted for span in done.spans) == done.model.accepted
    assert sum(span.refused for span in done.spans) == done.model.refused > 0


def test_a_long_run_has_a_table_of_bounded_length():
    done = simulate("bucket 1/s burst 1 latency 1ms", Policy(rate="1/s"), 200)
    assert 10 < len(done.spans) <= 24
    assert done.spans[-1].until == done.took


def test_an_hour_of_failing_ends():
    done = simulate("latency 1s errors 100%", Policy(), 20)
    assert done.failures == {"500": 20}
    assert (done.ok, done.goodput, done.waste) == (0, 0.0, 1.0)


def test_adaptive_control_finds_a_hidden_limit_and_what_it_found_is_told():
    done = simulate("bucket 40/s burst 40 latency 50ms", Policy(adaptive=True, concurrency=20), 2000)
    text = "\n".join(done.lines())
    assert (done.ok, done.waste < 0.03) == (2000, True)
    assert 36 < done.spans[-1].host.rate < 44
    assert "learned   about " in text
    assert "rate law" in text


def test_a_budget_bounds_the_requests_that_take_of_it():
    done = simulate("latency 5ms", Policy(rate="1000 tokens/10s"), 30, cost={"tokens": 100})
    assert 20.0 < done.took / 1e9 < 20.3


def test_a_rate_that_no_request_takes_of_is_refused_as_it_would_bound_nothing():
    with pytest.raises(OptionsError, match="give --cost tokens="):
        simulate("latency 5ms", Policy(rate=["9/s", "1000 tokens/10s"]), 30, cost={"words": 1})


def test_a_breaker_spares_what_waits_while_the_upstream_is_down():
    upstream = "latency 50ms errors 100% at 20s errors 0%"
    with_one, without = (simulate(upstream, Policy(breaker=breaker), 300) for breaker in (True, None))
    assert (with_one.ok, without.ok < 250) == (300, True)
    assert with_one.waste < without.waste / 3
    assert "breaker open" in "\n".join(with_one.lines())


def test_the_command_prints_the_sum_and_exits_by_it():
    done = comity("simulate", "--upstream", "window 50/s latency 5ms", "--rate", "40/s", "--requests", "120")
    assert done.returncode == 0
    assert "120: 120 ok" in done.stdout
    assert "eta " in done.stdout
    assert comity("simulate", "--upstream", "errors 100%", "--requests", "2", "--retries", "0").returncode == 1
    wrong = comity("simulate", "--upstream", "bukket 4/s")
    assert wrong.returncode == 2
    assert "bukket" in wrong.stderr
