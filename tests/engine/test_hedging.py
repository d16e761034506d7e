"""Hedging: a late attempt is sent once more, the first answer counts, and nothing is held afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Call, Exchange, Settled, Slot
from comity.engine.hosts import Hosts
from comity.errors import ConnectionLost
from comity.policy.budget import RetryBudget
from comity.policy.events import Event
from comity.policy.hedge import ENOUGH, Hedge
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.testing import VirtualClock

Script = list[tuple[float, int]]
"""Seconds and status of each send, in the order of the sends."""


class Played:
    """One call, or several one after the other, with what was sent."""

    def __init__(self, script: Script, *, calls: int = 1, call: dict[str, Any] | None = None, **options: Any) -> None:
        self.clock, self.events = VirtualClock(), list[Event]()
        self.script, self.sends, self.cut = list(script), list[tuple[float, int]](), 0
        policy = Policy(**{"hedge": Hedge(after=1.0)} | options)
        self.hosts = Hosts(policy, clock=self.clock, observe=self.events.append)
        self.engine = AsyncEngine(self.hosts, draw=lambda: 0.5)
        self.began = self.clock.now()
        self.asked = {"host": "a", "retry": Retry(), "idempotent": True} | (call or {})
        self.settled: list[Settled[str]] = self.clock.run(self._all(calls))

    async def _all(self, calls: int) -> list[Settled[str]]:
        return [await self.engine.run(Call(**self.asked), partial(hedged, self.send)) for _ in range(calls)]

    @property
    def now(self) -> float:
        return round((self.clock.now() - self.began) / 1e9, 3)

    async def send(self, slot: Slot) -> Exchange[str]:
        takes, status = self.script[len(self.sends)]
        self.sends.append((self.now, slot.number))
        slot.sent()
        try:
            await asyncio.sleep(takes)
        except asyncio.CancelledError:
            self.cut += 1
            raise
        return _exchange(status, slot.number)

    def nothing_is_held(self) -> bool:
        core = self.hosts.gate("a").core
        return (core.running, core.queued, core.aside) == (0, 0, 0)


async def hedged(send: Callable[[Slot], Awaitable[Exchange[str]]], slot: Slot) -> Exchange[str]:
    """Do what a hedged transport does."""
    return await (send(slot) if slot.hedging is None else slot.hedging.send(slot, send))


def _exchange(status: int, number: int) -> Exchange[str]:
    if status:
        return Exchange(outcome=Outcome(status=status), value=f"answer {number}")
    error = ConnectionLost("lost", sent="maybe")
    return Exchange(outcome=Outcome(failure="lost", sent="maybe"), error=error)


def test_a_quick_answer_needs_no_second_send():
    played = Played([(0.5, 200)])
    assert (played.sends, played.now) == ([(0.0, 1)], 0.5)
    assert [each.number for each in played.settled[0].attempts] == [1]


def test_a_late_attempt_is_sent_once_more_and_the_first_answer_counts():
    played = Played([(9, 200), (0.2, 200)])
    assert (played.sends, played.now, played.cut) == ([(0.0, 1), (1.0, 2)], 1.2, 1)
    settled = played.settled[0]
    assert settled.value == "answer 2"
    assert [(each.number, each.status, each.sent, each.decision) for each in settled.attempts] == [
        (1, None, "maybe", "superseded"),
        (2, 200, "yes", "done"),
    ]
    assert played.nothing_is_held()
    stats = played.hosts.stats().hosts["a"]
    assert (stats.started, stats.retried, stats.succeeded, stats.cancelled) == (2, 1, 1, 1)


def test_the_first_send_ends_the_attempt_when_it_is_quicker_after_all():
    played = Played([(1.1, 200), (5, 200)])
    settled = played.settled[0]
    assert (settled.value, played.now, played.cut) == ("answer 1", 1.1, 1)
    assert [(each.number, each.decision) for each in settled.attempts] == [(2, "superseded"), (1, "done")]
    assert played.nothing_is_held()


@pytest.mark.parametrize("bad", [503, 429, 0])
def test_a_hedge_that_fails_leaves_the_attempt_to_the_first_send(bad):
    played = Played([(3, 200), (0.5, bad)])
    settled = played.settled[0]
    assert (settled.value, played.now) == ("answer 1", 3.0)
    assert [(each.number, each.status, each.decision) for each in settled.attempts] == [
        (2, bad or None, "superseded"),
        (1, 200, "done"),
    ]
    assert played.nothing_is_held()


def test_a_refused_hedge_pauses_the_host_like_any_refusal():
    played = Played([(3, 200), (0.5, 429)])
    assert [event.type for event in played.events if event.type == "paused"] == []
    assert played.hosts.stats().hosts["a"].refused == 1
    assert played.hosts.gate("a").core.pause.until > 0


def test_a_first_send_that_fails_is_tried_again_as_ever():
    played = Played([(2, 503), (5, 200), (0.1, 200)], retry=Retry(), call={"retry": Retry()})
    settled = played.settled[0]
    assert [(each.number, each.decision) for each in settled.attempts] == [(2, "superseded"), (1, "retry"), (3, "done")]
    assert settled.value == "answer 3"


def test_several_hedges_come_one_after_the_other():
    played = Played([(9, 200), (9, 200), (0.5, 200)], hedge=Hedge(after=1.0, max=2))
    assert (played.sends, played.now, played.cut) == ([(0.0, 1), (1.0, 2), (2.0, 3)], 2.5, 2)
    assert played.nothing_is_held()


def test_a_hedge_takes_only_a_slot_that_is_free_now():
    assert Played([(4, 200)], concurrency=1).sends == [(0.0, 1)]
    assert Played([(4, 200)], rate="1/min").sends == [(0.0, 1)]


def test_a_late_attempt_is_looked_at_again_until_something_is_free():
    played = Played([(9, 200), (0.2, 200)], rate="1/2s")
    assert (played.sends, played.now) == ([(0.0, 1), (3.0, 2)], 3.2)


def test_a_late_attempt_is_looked_at_more_and_more_rarely():
    # Looked at after 1, 3, 7, 15 and 31 s; every 10 s something is free.
    assert Played([(60, 200), (9, 200)], rate="1/10s").sends == [(0.0, 1), (15.0, 2)]


def test_a_hedge_is_paid_from_the_retry_budget():
    played = Played(
        [(4, 200), (9, 200), (4, 200)], calls=2, retry_budget=RetryBudget(start=1, per_second=0, per_success=0)
    )
    assert [number for _, number in played.sends] == [1, 2, 1]


@pytest.mark.parametrize("call", [{"idempotent": False}, {"replayable": False}])
def test_what_may_not_be_repeated_is_never_hedged(call):
    assert Played([(9, 200)], call=call).sends == [(0.0, 1)]


def test_a_key_makes_a_request_repeatable():
    assert len(Played([(9, 200), (1, 200)], call={"idempotent": False, "keyed": True}).sends) == 2


def test_late_is_later_than_most_were():
    played = Played([(0.1, 200)] * ENOUGH + [(9, 200), (0.1, 200)], calls=ENOUGH + 1, hedge=Hedge())
    assert played.now == round(0.1 * ENOUGH + 0.2, 3)


@pytest.mark.parametrize("after", [0.5, 1.5])
def test_a_cancelled_call_ends_every_send_and_holds_nothing(after):
    """CA-01"""
    clock = VirtualClock()
    hosts = Hosts(Policy(hedge=Hedge(after=1.0)), clock=clock)
    ended: list[int] = []

    async def send(slot: Slot) -> Exchange[str]:
        slot.sent()
        try:
            await asyncio.sleep(9)
        finally:
            ended.append(slot.number)
        return _exchange(200, slot.number)

    async def main() -> None:
        task = asyncio.create_task(
            AsyncEngine(hosts).run(Call(host="a", retry=Retry(), idempotent=True), partial(hedged, send))
        )
        await asyncio.sleep(after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    clock.run(main())
    assert sorted(ended) == ([1] if after < 1 else [1, 2])
    core = hosts.gate("a").core
    assert (core.running, core.queued) == (0, 0)


def test_every_send_is_told_to_who_observes():
    played = Played([(9, 200), (0.2, 200)])
    assert [(event.type, event.number, event.reason) for event in played.events] == [
        ("started", 1, ""),
        ("started", 2, ""),
        ("finished", 1, "superseded"),
        ("finished", 2, "done"),
    ]
