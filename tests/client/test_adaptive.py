"""Adaptive control through the client: the gate, the transport and the stats together, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from comity import Adaptive, AsyncClient, BadResponse
from comity.engine.stats import HostStats
from comity.policy.units import NS
from comity.testing import Answer, ScriptedTransport, VirtualClock


def after(requests: int, latency: float, **options: object) -> HostStats:
    """Return what is known of a host after so many requests, answered after so long each."""
    clock = VirtualClock()
    transport = ScriptedTransport(lambda _: Answer(after=latency))

    async def main() -> HostStats:
        async with AsyncClient("http://a.test", clock=clock, transport=transport, **options) as api:
            await asyncio.gather(*(api.get("/") for _ in range(requests)))
            return api.stats().hosts["a.test"]

    return clock.run(main())


@pytest.mark.parametrize(("adaptive", "limit"), [(True, 20.0), ("ema", 20.0), (Adaptive(initial_concurrency=3), 20.0)])
def test_concurrency_grows_to_what_the_host_allows_while_nothing_queues(adaptive, limit):
    """CP-024, CP-072: up to `concurrency`, never above; the live value is told."""
    learned = after(300, 0.25, adaptive=adaptive, concurrency=20)
    assert (learned.limit, learned.concurrency, learned.succeeded) == (limit, 20, 300)
    assert learned.floor == pytest.approx(0.25)


def test_without_the_option_nothing_is_learned():
    """CP-013: off by default."""
    learned = after(30, 0.25, concurrency=20)
    assert (learned.limit, learned.floor, learned.concurrency) == (None, 0.0, 20)


def test_a_rule_for_one_host_may_adapt():
    learned = after(30, 0.25, hosts={"a.test": {"adaptive": Adaptive(algorithm="ema", initial_concurrency=4)}})
    assert learned.limit == 10.0


@pytest.mark.parametrize("options", [{"breaker": True}, {"adaptive": True}])
def test_while_a_host_is_down_the_others_wait_and_spend_no_attempt(options):
    """A host that fails for a minute costs some probes, not the requests that are waiting."""
    clock, events = VirtualClock(), []
    transport = ScriptedTransport(lambda _: Answer(503 if clock.now() < began + 60 * NS else 200, after=0.05))
    began = clock.now()

    async def main() -> list[int]:
        options_ = {"concurrency": 3, "retry": 0, "on_event": events.append, "raise_for": "never"} | options
        async with AsyncClient("http://a.test", clock=clock, transport=transport, **options_) as api:
            calls = [asyncio.create_task(api.get("/")) for _ in range(200)]
            await asyncio.sleep(30)
            host = api.stats().hosts["a.test"]
            assert (host.breaker, host.reason, host.queued > 150) == ("open", "breaker open", True)
            answers = await asyncio.gather(*calls)
            assert api.stats().hosts["a.test"].breaker == "closed"
            return [answer.status_code for answer in answers]

    statuses = clock.run(main())
    assert statuses.count(503) <= 25
    assert [event.type for event in events if event.type in {"opened", "closed"}] == ["opened", "closed"]


def test_a_rule_for_one_host_may_have_a_breaker_or_adapt_by_name():
    assert after(30, 0.25, hosts={"a.test": {"adaptive": "auto", "breaker": True}}).breaker == "closed"
    assert after(30, 0.25, hosts={"b.test": {"adaptive": "auto"}}, breaker=None).breaker is None


@pytest.mark.parametrize(("use_ttfb", "floor"), [(True, 0.25), (False, 1.25)])
def test_a_streamed_answer_is_sampled_at_its_head_or_at_the_end_of_its_body(use_ttfb, floor):
    """CP-014: the first byte, or the whole body, also of a body that is read while it comes."""
    clock = VirtualClock()
    transport = ScriptedTransport(lambda _: Answer(content=b"abc", after=0.25))

    async def main() -> HostStats:
        adaptive = Adaptive(algorithm="ema", use_ttfb=use_ttfb)
        async with AsyncClient("http://a.test", clock=clock, transport=transport, adaptive=adaptive) as api:
            async with api.stream("GET", "/") as answer:
                await asyncio.sleep(1)
                async for _ in answer.iter_bytes():
                    pass
            return api.stats().hosts["a.test"]

    assert clock.run(main()).floor == pytest.approx(floor)


def test_a_streamed_answer_whose_body_breaks_is_no_sample_where_whole_answers_are():
    clock = VirtualClock()
    transport = ScriptedTransport(lambda _: Answer(content=b"abc", after=0.25, fault="truncated"))

    async def main() -> HostStats:
        adaptive = Adaptive(algorithm="ema", use_ttfb=False)
        async with AsyncClient("http://a.test", clock=clock, transport=transport, adaptive=adaptive) as api:
            with pytest.raises(BadResponse):
                async with api.stream("GET", "/") as answer:
                    await answer.read()
            return api.stats().hosts["a.test"]

    assert clock.run(main()).floor == 0
