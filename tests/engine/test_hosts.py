"""Hosts: which limiter a request belongs to, and how long it is kept."""

from __future__ import annotations

import pytest

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange
from comity.engine.hosts import SWEEP_AT, SWEEP_EVERY, Hosts
from comity.errors import OptionsError
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.policy.units import NS, seconds
from comity.testing.virtual_clock import VirtualClock
from tests.engine.scenarios import policy

RULES = {"deezer.com": Policy(concurrency=1), "api.deezer.com": Policy(concurrency=2)}


@pytest.fixture
def clock():
    return VirtualClock()


class Caller:
    """Sends one request at a time, each answered at once."""

    def __init__(self, hosts):
        self.hosts, self.engine = hosts, AsyncEngine(hosts)

    async def get(self, host, status=200, retry_after=None):
        async def send(slot):
            slot.sent()
            return Exchange(outcome=Outcome(status=status, retry_after=retry_after))

        return await self.engine.run(Call(host=host, retry=Retry(attempts=1)), send)


# Keys


def test_all_hosts_under_one_key_share_a_limiter_and_others_do_not():
    """PF-006 PF-007: hosts never share one by accident."""
    hosts = Hosts(hosts=RULES)
    assert hosts.gate("deezer.com") is hosts.gate("www.deezer.com") is hosts.gate("DEEZER.COM.")
    assert hosts.gate("deezer.com") is not hosts.gate("api.deezer.com")
    assert hosts.gate("other.example") is hosts.gate("other.example")
    assert hosts.gate("other.example") is not hosts.gate("www.other.example")
    assert hosts.gate("other.example") is not hosts.gate("other.example:8080")


@pytest.mark.parametrize("bound", [0, -1, 2.5, "many", True])
def test_a_bound_over_all_hosts_is_a_whole_number(bound):
    with pytest.raises(OptionsError, match="max_connections"):
        Hosts(max_connections=bound)


# Forgetting


def test_many_hosts_that_are_seen_once_do_not_pile_up(clock):
    """MK-01: 20 000 hosts, one request each, and one more after a while."""
    hosts = Hosts(policy(rate="5/100ms", min_gap=0.01), clock=clock)
    caller = Caller(hosts)

    async def main():
        for n in range(20_000):
            await caller.get(f"{n}.example")
            if n == 10_000:
                clock.advance(0.2)
        clock.advance(SWEEP_EVERY * 20_000 * 2 / NS)
        await caller.get("one.more.example")

    clock.run(main())
    assert len(hosts._gates) == len(hosts._by_host) == 1


def test_many_subdomains_of_one_key_do_not_pile_up(clock):
    hosts = Hosts(hosts={"deezer.com": Policy()}, clock=clock)
    for n in range(10 * SWEEP_AT):
        hosts.gate(f"{n}.deezer.com")
    assert len(hosts._by_host) <= SWEEP_AT
    assert len(hosts._gates) == 1


def crowd(hosts):
    """See so many other hosts, once each, that idle limiters are forgotten."""
    for n in range(SWEEP_AT + 1):
        hosts.gate(f"{n}.crowd.example").calls -= 1


@pytest.mark.parametrize(
    ("rules", "status", "retry_after", "remembered_for"),
    [
        ({"rate": "1/min"}, 200, None, 60),
        ({"rate": ["1/s", "10/h"]}, 200, None, 3600),
        ({"min_gap": 5}, 200, None, 5),
        ({}, 503, 30, 30),
        ({}, 429, 3600, 3600),
    ],
)
def test_a_limiter_is_kept_as_long_as_it_has_something_to_say(clock, rules, status, retry_after, remembered_for):
    hosts = Hosts(policy(**rules), clock=clock)
    hint = None if retry_after is None else seconds(retry_after)
    clock.run(Caller(hosts).get("api.example", status, hint))
    before = hosts.stats().hosts.keys()
    clock.advance(remembered_for - 0.001)
    crowd(hosts)
    assert "api.example" in hosts.stats().hosts
    clock.advance(0.002 + SWEEP_EVERY * 4 * SWEEP_AT / NS)
    crowd(hosts)
    assert before == {"api.example"}
    assert "api.example" not in hosts.stats().hosts


def test_what_a_429_taught_is_kept(clock):
    hosts = Hosts(policy(learn="gap"), clock=clock)
    clock.run(Caller(hosts).get("api.example", 429, 0))
    clock.advance(10_000)
    crowd(hosts)
    assert hosts.stats().hosts["api.example"].gap == 0.25


def test_a_limiter_is_not_forgotten_while_a_call_holds_its_gate(clock):
    """A call between two attempts neither waits nor runs; it comes back to the same limiter."""
    hosts = Hosts(clock=clock)
    gate = hosts.gate("api.example")
    crowd(hosts)
    clock.advance(10_000)
    crowd(hosts)
    assert hosts.gate("api.example") is gate


# All hosts together


def test_stats_tell_what_an_adaptive_control_learned(clock):
    """CP-072: the live value of the limit is what may run at once."""
    hosts = Hosts(policy(adaptive=True, concurrency=20), clock=clock)
    caller = Caller(hosts)
    for _ in range(40):
        clock.run(caller.get("api.example"))
        clock.advance(0.01)
    clock.run(caller.get("api.example", 429, seconds(1)))
    clock.run(caller.get("api.example"))
    learned = hosts.stats().hosts["api.example"]
    assert (learned.concurrency, learned.limit) == (2, 2.0)
    assert learned.rate is not None
    assert learned.rate > 20
    plain = Hosts(policy(), clock=clock)
    clock.run(Caller(plain).get("api.example"))
    silent = plain.stats().hosts["api.example"]
    assert (silent.limit, silent.floor, silent.rate) == (None, 0.0, None)


def test_stats_sum_up_the_hosts(clock):
    """CP-072 CP-073: queued, running and concurrency, live; over all hosts and of each."""
    hosts = Hosts(Policy(concurrency=2), {"deezer.com": Policy(concurrency=3)}, clock=clock)
    assert (hosts.stats().queued, hosts.stats().running, hosts.stats().concurrency) == (0, 0, 2)
    caller = Caller(hosts)
    clock.run(caller.get("a.example"))
    clock.run(caller.get("www.deezer.com", 500))
    clock.run(caller.get("deezer.com", 429, seconds(7)))
    stats = hosts.stats()
    assert stats.concurrency == 2 + 1
    assert {name: (host.started, host.succeeded, host.refused, host.failed) for name, host in stats.hosts.items()} == {
        "a.example": (1, 1, 0, 0),
        "deezer.com": (2, 0, 1, 1),
    }
    assert (stats.hosts["deezer.com"].concurrency, stats.hosts["deezer.com"].paused_for) == (1, 7)
    clock.run(caller.get("deezer.com", 429, seconds(70)))
    assert hosts.stats().hosts["deezer.com"].blocked_for == 70


@pytest.mark.parametrize(
    ("concurrency", "max_connections", "expected"), [(10, 4, 4), (3, 500, 6), (None, 500, 500), (None, None, None)]
)
def test_concurrency_over_all_hosts_is_bounded_by_max_connections(clock, concurrency, max_connections, expected):
    hosts = Hosts(Policy(concurrency=concurrency), max_connections=max_connections, clock=clock)
    hosts.gate("a.example"), hosts.gate("b.example")
    assert hosts.stats().concurrency == expected
