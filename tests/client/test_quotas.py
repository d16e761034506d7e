"""A server that announces its quotas need not refuse, and is not slower for it where a rate is known."""

from __future__ import annotations

import asyncio

import pytest

from comity import AsyncClient, Rate
from comity.testing import Answer, Model, ScriptedTransport, VirtualClock


def played(words: str, count: int, **options: object) -> tuple[Model, float]:
    """Return the upstream after so many requests, and the seconds that they took."""
    clock = VirtualClock()
    model = Model(words, clock)

    async def main() -> float:
        api = AsyncClient(
            "http://x.test", clock=clock, transport=ScriptedTransport(model), raise_for="never", **options
        )  # type: ignore[arg-type]
        async with api:
            began = clock.now()
            await asyncio.gather(*(api.get("/") for _ in range(count)))
            return (clock.now() - began) / 1e9

    took = clock.run(main())
    return model, took


@pytest.mark.parametrize("style", ["draft", "x", "old"])
@pytest.mark.parametrize("limit", ["bucket 40/s burst 40", "window 100/min", "fixed 100/min"])
def test_whatever_the_limit_and_the_spelling_nobody_is_refused(style, limit):
    model, _ = played(f"{limit} latency 20ms jitter 20ms announces {style}", 300)
    assert (model.accepted, model.refused, model.failed) == (300, 0, 0)


def test_what_is_announced_need_not_be_obeyed():
    model, _ = played("fixed 20/min announces draft", 40, obey_quotas=False)
    assert model.refused > 0


def test_a_rate_that_is_known_is_not_slowed_down_by_resets_in_whole_seconds():
    rate = Rate(40, 1, measured="server")
    _, silent = played("window 40/s latency 20ms", 400, rate=rate)
    model, told = played("window 40/s latency 20ms announces draft", 400, rate=rate)
    assert (model.refused, told) == (0, silent)


def test_a_probe_that_is_told_nothing_more_opens_the_gate_again():
    clock = VirtualClock()
    script = [Answer(200, headers={"RateLimit": '"a";r=0;t=5'})] + [Answer(200, after=1)] * 30

    async def main() -> float:
        async with AsyncClient("http://x.test", clock=clock, transport=ScriptedTransport(*script)) as api:
            await api.get("/")
            began = clock.now()
            await asyncio.gather(*(api.get("/") for _ in range(21)))
            return (clock.now() - began) / 1e9

    assert round(clock.run(main())) == 5 + 1 + 2
