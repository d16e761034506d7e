"""Token budgets: charged with an estimate, corrected by the answer."""

from __future__ import annotations

import asyncio

import pytest

from comity import AsyncClient, OptionsError, Policy
from comity.testing import Answer, ScriptedTransport, VirtualClock

OPENAI = {"choices": [], "usage": {"prompt_tokens": 60, "completion_tokens": 40, "total_tokens": 100}}
ANTHROPIC = {"content": [], "usage": {"input_tokens": 70, "output_tokens": 30}}


def started_in_the_first_minute(body: object, usage: object, **options: object) -> int:
    """Return how many of 20 requests, each thought to cost 500 of 1000 tokens a minute, are answered within it."""
    clock = VirtualClock()
    policy = Policy(rate="1000 tokens/min", usage=usage, **options)  # type: ignore[arg-type]
    transport = ScriptedTransport(lambda _: Answer(json=body))

    async def main() -> int:
        async with AsyncClient("http://llm.test", policy=policy, clock=clock, transport=transport) as api:
            until = clock.now() + 59_000_000_000

            async def one() -> bool:
                await api.post("/v1/chat", json={"prompt": "x"}, cost={"tokens": 500})
                return clock.now() < until

            return sum(await asyncio.gather(*(one() for _ in range(20))))

    return clock.run(main())


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (OPENAI, {"tokens": "usage.total_tokens"}),
        (ANTHROPIC, {"tokens": ["usage.input_tokens", "usage.output_tokens"]}),
        (ANTHROPIC, lambda answer: {"tokens": sum(answer.data["usage"].values())}),
    ],
)
def test_what_an_estimate_took_too_much_is_free_again_at_once(body, usage):
    # 100 each fit ten times, and the estimate has to fit besides.
    assert started_in_the_first_minute(body, usage) == 6


def test_without_a_figure_the_estimate_stands():
    assert started_in_the_first_minute({"choices": []}, {"tokens": "usage.total_tokens"}) == 2
    assert started_in_the_first_minute(OPENAI, None) == 2


def test_what_an_estimate_took_too_little_delays_the_next():
    assert (
        started_in_the_first_minute({"usage": {"total_tokens": 3000}}, {"tokens": "usage.total_tokens"}, concurrency=1)
        == 1
    )


def test_a_function_that_names_no_budget_of_the_host_is_told():
    with pytest.raises(OptionsError, match="words"):
        started_in_the_first_minute(OPENAI, lambda _answer: {"words": 1})


def test_a_streamed_answer_is_corrected_by_its_reader():
    clock = VirtualClock()
    transport = ScriptedTransport(lambda _: Answer(content=b"data: 1\n\ndata: 2\n\n"))

    async def main() -> float:
        async with AsyncClient("http://llm.test", rate="1000 tokens/min", clock=clock, transport=transport) as api:
            began = clock.now()
            for _ in range(3):
                async with api.stream("POST", "/v1/chat", cost={"tokens": 900}) as answer:
                    tokens = [line async for line in answer.iter_lines() if line.startswith("data")]
                    answer.settle({"tokens": len(tokens)})
            with pytest.raises(OptionsError, match="words"):
                answer.settle({"words": 1})
            return (clock.now() - began) / 1e9

    assert clock.run(main()) == 0
