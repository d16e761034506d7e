"""What servers say of their limits may be any text: nothing of it breaks a client, nor makes a wait negative or endless."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given, strategies as st

from comity import AsyncClient, ComityError, Policy, Response
from comity.policy.units import NS
from comity.testing import Answer, ScriptedTransport, VirtualClock

NAMES = [
    "Retry-After", "retry-after-ms", "Date", "RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining",
    "RateLimit-Reset", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Rate-Limit-Limit",
    "X-Rate-Limit-Interval", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset",
]  # fmt: skip
TEXTS = [
    "", "0", "-1", "-0", "1", "1.5", "-2.5", "59.999", "1e9", "1e400", "inf", "-inf", "nan", "NaN", "9" * 40, "0x10", "1,2",
    "1, 9999999", "+5", "5s", "6m0s", "20ms", "-6m0s", "99999999h", "0;w=0", '"q";r=0;t=99999999999999', '"q";r=-1;t=-5',
    '"q";q=0;w=0', '"a";r=0;t=1, "a";r=9;t=0', "true", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
    "Mon, 30 Feb 2026 10:00:00 GMT", "Sun Nov  6 08:49:37 1994", "2026-02-30T00:00:00Z", "9999-12-31T23:59:59Z", "4102444800",
    "4102444800000", "\u0661", "\u00b2", "\t 5 \t",
]  # fmt: skip
POLICIES = {
    "default": Policy(),
    "auto": Policy(adaptive="auto"),
    "ema": Policy(adaptive="ema"),
    "rates": Policy(rate=["5/s", "100/min"], breaker=True),
    "gap": Policy(learn="gap", min_gap=0.01),
}
DEADLINE = 600.0

texts = st.sampled_from(TEXTS) | st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=20)
heads = st.lists(st.tuples(st.sampled_from(NAMES), texts), max_size=5)
answers = st.lists(st.tuples(st.sampled_from([200, 204, 429, 500, 503]), heads), min_size=1, max_size=4)


@pytest.mark.parametrize("name", POLICIES)
@given(said=answers)
@example(said=[(429, [("Retry-After", "-5")])])
@example(said=[(200, [("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "9" * 40)])])
@example(said=[(429, [("Retry-After", "1"), ("Retry-After", "9999999"), ("retry-after-ms", "-1")])])
@example(said=[(200, [("RateLimit", '"q";r=0;t=99999999999999')]), (429, [])])
def test_no_header_breaks_a_client_nor_makes_a_wait_negative_or_endless(name, said):
    """RA-03, RA-04: three requests at once and two later, over answers that say anything; the calls end, and the client is usable."""
    clock, sent = VirtualClock(), 0

    def answer(_request: object) -> Answer:
        nonlocal sent
        status, headers = said[sent % len(said)]
        sent += 1
        return Answer(200 if sent > 60 else status, headers=headers, after=0.1)

    async def call(api: AsyncClient) -> None:
        try:
            done: Response | ComityError = await api.get("/")
        except ComityError as error:
            done = error
        for attempt in getattr(done, "attempts", ()):
            assert attempt.waited >= 0
            assert attempt.retry_after is None or attempt.retry_after >= 0

    async def main() -> float:
        transport, began = ScriptedTransport(answer), clock.now()
        options = {"deadline": DEADLINE, "raise_for": "never"}
        async with AsyncClient(
            "http://a.test", policy=POLICIES[name], clock=clock, transport=transport, **options
        ) as api:
            await asyncio.gather(*(call(api) for _ in range(3)))
            for _ in range(2):
                await call(api)
            for host in api.stats().hosts.values():
                assert min(host.paused_for, host.blocked_for, host.held_for, host.gap, host.floor) >= 0
                assert host.running == host.queued == 0
        return (clock.now() - began) / NS

    assert clock.run(main()) <= 3 * DEADLINE + 1
