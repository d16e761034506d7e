"""A host's retries are bounded by its successes, for all requests together."""

from __future__ import annotations

import asyncio

import pytest

from comity import AsyncClient, Retry, RetryBudget
from comity.testing import Answer, ScriptedTransport, VirtualClock


@pytest.mark.parametrize(("budget", "sent", "seconds"), [(None, 60, 10), (RetryBudget(start=5), 25, 10)])
def test_a_host_that_fails_altogether_gets_no_more_retries_than_there_are(budget, sent, seconds):
    clock = VirtualClock()
    transport = ScriptedTransport(lambda _: 503)

    async def main() -> list[object]:
        async with AsyncClient("http://x.test", clock=clock, transport=transport, retry_budget=budget) as api:
            return await asyncio.gather(*(api.get("/") for _ in range(20)), return_exceptions=True)

    began = clock.now()
    failed = clock.run(main())
    assert len(transport.requests) == sent
    assert {error.status_code for error in failed} == {503}
    assert clock.now() - began < seconds * 10**9


def test_a_call_that_is_given_up_for_it_says_so():
    clock = VirtualClock()

    async def main() -> object:
        budget = RetryBudget(start=0)
        transport = ScriptedTransport(503)
        async with AsyncClient(
            "http://x.test", clock=clock, transport=transport, retry_budget=budget, raise_for="never"
        ) as api:
            return (await api.get("/")).attempts[-1].decision

    assert clock.run(main()) == "budget"


def test_refusals_by_rate_spend_nothing():
    clock = VirtualClock()
    script = [Answer(429, headers={"Retry-After": "1"})] * 5 + [200]

    async def main() -> int:
        budget = RetryBudget(start=0)
        transport = ScriptedTransport(*script)
        async with AsyncClient("http://x.test", clock=clock, transport=transport, retry_budget=budget) as api:
            return (await api.get("/")).status_code

    assert clock.run(main()) == 200


def test_a_row_that_is_put_off_is_sent_again_later():
    clock = VirtualClock()

    async def main() -> float:
        budget = RetryBudget(start=0, empty="defer")
        transport = ScriptedTransport(503, 200)
        async with AsyncClient(
            "http://x.test", clock=clock, transport=transport, retry_budget=budget, retry=Retry(attempts=2)
        ) as api:
            began = clock.now()
            assert (await api.get("/")).status_code == 200
            return (clock.now() - began) / 1e9

    assert 5 <= clock.run(main()) <= 10
