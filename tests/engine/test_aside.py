"""Aside: a request whose turn has come waits for what it needs first, and holds nothing meanwhile. Virtual time."""

from __future__ import annotations

import asyncio

import pytest

from comity.engine.async_engine import AsyncEngine
from comity.engine.call import Aside, Call, Exchange, Slot
from comity.engine.hosts import Hosts
from comity.engine.thread_engine import ThreadEngine
from comity.errors import RequestError
from comity.policy.events import Event
from comity.policy.options import Policy
from comity.policy.outcome import Outcome
from comity.policy.retry import Retry
from comity.testing.virtual_clock import VirtualClock

OK = Exchange(outcome=Outcome(status=200), value="ok")


class Need:
    """What a call needs: something that takes `takes` seconds to get, or that cannot be had."""

    def __init__(self, takes: float = 5.0, error: Exception | None = None) -> None:
        self.takes, self.error, self.there = takes, error, False

    def __call__(self) -> Aside | None:
        return None if self.there else Aside(self.get)

    async def get(self) -> None:
        await asyncio.sleep(self.takes)
        if self.error is not None:
            raise self.error
        self.there = True


def engine_on(clock: VirtualClock, events: list[Event], **policy: object) -> AsyncEngine:
    return AsyncEngine(Hosts(Policy(**policy), clock=clock, observe=events.append))


async def send(slot: Slot) -> Exchange[str]:
    slot.sent()
    return OK


def test_a_turn_given_back_is_another_ones_and_costs_nothing():
    clock, events = VirtualClock(), []
    engine = engine_on(clock, events, rate="1/100s", concurrency=1)

    async def use() -> list[float]:
        began, ends = clock.now(), []

        async def run(**options: object) -> None:
            await engine.run(Call(host="h", retry=Retry(), **options), send)
            ends.append(round((clock.now() - began) / 1e9, 3))

        needing = asyncio.create_task(run(needs=Need()))
        await asyncio.sleep(1)
        assert engine.stats().running == 0
        await asyncio.gather(needing, asyncio.create_task(run()))
        return ends

    assert clock.run(use()) == [1.0, 101.0]
    assert [(each.type, each.number) for each in events if each.type == "started"] == [("started", 1)] * 2


def test_a_call_cancelled_aside_leaves_nothing_behind():
    clock, events = VirtualClock(), []
    engine = engine_on(clock, events, rate="1/100s", concurrency=1)

    async def use() -> None:
        task = asyncio.create_task(engine.run(Call(host="h", retry=Retry(), needs=Need()), send))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stats = engine.stats()
        assert (stats.running, stats.queued, stats.hosts["h"].started) == (0, 0, 0)
        began = clock.now()
        assert (await engine.run(Call(host="h", retry=Retry()), send)).value == "ok"
        assert clock.now() == began

    clock.run(use())


def test_what_cannot_be_had_ends_the_call_with_the_attempts_so_far():
    clock, events = VirtualClock(), []
    engine = engine_on(clock, events)
    need = Need(error=RequestError("none to be had"))
    need.there = True

    async def failing(slot: Slot) -> Exchange[str]:
        slot.sent()
        need.there = False
        return Exchange(outcome=Outcome(status=503), value="busy")

    async def use() -> None:
        with pytest.raises(RequestError, match="none to be had") as caught:
            await engine.run(Call(host="h", retry=Retry(), idempotent=True, needs=need), failing)
        assert [each.status for each in caught.value.attempts] == [503]

    clock.run(use())
    assert (events[-1].type, events[-1].reason) == ("failed", "RequestError")


def test_a_thread_says_that_it_cannot_await():
    engine = ThreadEngine(Hosts(Policy()))
    with pytest.raises(TypeError, match="cannot await"):
        engine.run(Call(host="h", retry=Retry(), needs=Need()), lambda _slot: OK)
    assert engine.stats().running == 0
