"""Changes: what a host taught since it was told last, and the events that tell it."""

from __future__ import annotations

import asyncio

from comity import AsyncClient
from comity.engine.changes import Changes, News
from comity.policy.controller import Ending
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.ticket import Ticket
from comity.testing import Answer, ScriptedTransport, VirtualClock


def learner(limit: int, rate: float) -> HostLimiter:
    limiter = HostLimiter(Policy(adaptive=True, concurrency=100), 0)
    limiter.recall(rate, 2 * limit, 0)
    return limiter


def test_without_adaptive_control_there_is_no_news():
    assert Changes().since(HostLimiter(Policy(), 0), 0) == []


def test_a_limit_and_rate_are_told_once_until_one_of_them_is_another_by_a_fifth():
    changes = Changes()
    assert changes.since(learner(10, 40.0), 0) == [News("limited", limit=10.0, rate=40.0)]
    assert changes.since(learner(10, 40.0), 0) == []
    assert changes.since(learner(11, 47.0), 0) == []
    assert changes.since(learner(12, 40.0), 0) == [News("limited", limit=12.0, rate=40.0)]
    assert changes.since(learner(12, 32.0), 0) == [News("limited", limit=12.0, rate=32.0)]


def test_a_breaker_is_told_when_it_opens_and_when_it_closes():
    limiter, changes, now = HostLimiter(Policy(adaptive=True), 0), Changes(), 0

    def end(ending: Ending) -> None:
        nonlocal now
        ticket = Ticket(5, limiter.meters.ordinary)
        now = limiter.ready
        assert limiter.grant_at_once(ticket, now)
        limiter.started(ticket, now)
        limiter.sample(ticket, now, ending)
        limiter.release(ticket, now)

    changes.since(limiter, now)
    for _ in range(6):
        end(Ending.FAILED)
    assert [each for each in changes.since(limiter, now) if each.type != "limited"] == [News("opened", wait=0.5)]
    end(Ending.FAILED)
    assert not [each for each in changes.since(limiter, now) if each.type != "limited"]
    end(Ending.OK)
    assert [each for each in changes.since(limiter, now) if each.type != "limited"] == [News("closed")]


def test_a_client_tells_them_as_events_of_the_host_with_what_is_learned():
    events, clock = [], VirtualClock()
    transport = ScriptedTransport(lambda _: Answer(after=0.25))

    async def main() -> None:
        options = {"adaptive": True, "concurrency": 20, "on_event": events.append}
        async with AsyncClient("http://a.test", clock=clock, transport=transport, **options) as api:
            await asyncio.gather(*(api.get("/") for _ in range(100)))

    clock.run(main())
    limits = [event.limit for event in events if event.type == "limited"]
    assert limits[0] >= 2
    assert limits == sorted(limits)
    assert limits[-1] > 16
    assert {event.host for event in events} == {"a.test"}
    assert len(limits) < 12


def test_a_client_tells_why_it_is_paused():
    events, clock = [], VirtualClock()
    answers = [Answer(429, headers={"Retry-After": "2"}), Answer(200)]
    transport = ScriptedTransport(lambda _: answers.pop(0))

    async def main() -> None:
        async with AsyncClient("http://a.test", clock=clock, transport=transport, on_event=events.append) as api:
            call = asyncio.create_task(api.get("/"))
            await asyncio.sleep(1)
            host = api.stats().hosts["a.test"]
            assert (host.reason, 0 < host.held_for <= 2, host.breaker) == ("retry-after", True, None)
            await call

    clock.run(main())
    assert [event.reason for event in events if event.type == "paused"] == ["retry-after"]
