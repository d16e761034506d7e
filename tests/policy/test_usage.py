"""Usage: what an answer says it cost."""

from __future__ import annotations

import math

import pytest

from comity.errors import OptionsError
from comity.policy.host_rules import HostRules
from comity.policy.json_path import JsonPath
from comity.policy.limiter import HostLimiter
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.usage import Usage

OPENAI = {"usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}}
TOKENS = {"tokens": "usage.total_tokens"}
ANTHROPIC = {"usage": {"input_tokens": 2095, "output_tokens": 503, "cache_read_input_tokens": 0}}


class Answered:
    """An answer with a body."""

    def __init__(self, body: object) -> None:
        self.body = body

    def field(self, path: JsonPath) -> object:
        return path.find(self.body)


@pytest.mark.parametrize(
    ("given", "body", "actual"),
    [
        ({"tokens": "usage.total_tokens"}, OPENAI, {"tokens": 29}),
        ({"tokens": ["usage.input_tokens", "usage.output_tokens"]}, ANTHROPIC, {"tokens": 2598}),
        ({"tokens": ["usage.input_tokens", "usage.thinking"]}, ANTHROPIC, {"tokens": 2095}),
        ({"input": "usage.input_tokens", "output": "usage.output_tokens"}, ANTHROPIC, {"input": 2095, "output": 503}),
        ({"tokens": "usage.total_tokens"}, ANTHROPIC, None),
        ({"tokens": "cost"}, {"cost": 1.2}, {"tokens": 2}),
        ({"tokens": "cost"}, {"cost": 0}, {"tokens": 0}),
        *(({"tokens": "cost"}, {"cost": cost}, None) for cost in (-1, True, "12", None, [], math.inf, math.nan)),
        (lambda answer: {"tokens": len(answer.body)}, "abc", {"tokens": 3}),
        (lambda _answer: None, OPENAI, None),
    ],
)
def test_an_answer_tells_its_cost_or_nothing(given, body, actual):
    assert Usage(given).actual(Answered(body)) == actual


@pytest.mark.parametrize(
    "given", [{}, {"tokens": []}, {"tokens": 7}, {"Tokens": "a"}, {"tokens": "a..b"}, "tokens", 7, [1]]
)
def test_what_is_no_usage_is_refused(given):
    with pytest.raises(OptionsError, match="usage"):
        Usage(given)


async def _told(_answer: object) -> None: ...


def test_a_function_that_has_to_be_awaited_is_refused():
    with pytest.raises(OptionsError, match="plain function"):
        Usage(_told)


def test_a_budget_that_no_rate_counts_is_refused_and_the_others_are_named():
    with pytest.raises(OptionsError, match="the rates count requests and words"):
        HostRules(Policy(rate="5/s", usage=TOKENS), {"a.example": {"rate": "10 words/s"}})
    with pytest.raises(OptionsError, match="the rates count nothing"):
        HostRules(Policy(), {"a.example": {"usage": TOKENS}})


def test_a_host_minds_the_budgets_that_it_counts_and_leaves_the_others_alone():
    rules = HostRules(Policy(usage=TOKENS), {"a.example": {"rate": "10 tokens/s"}})
    assert HostLimiter(rules.match("a.example").policy, 0).usage == Usage(TOKENS)
    assert HostLimiter(rules.match("b.example").policy, 0).usage is None


def test_a_function_is_asked_everywhere():
    usage = Usage(lambda _: None)
    assert usage.within({"tokens"}) is usage


def test_usages_compare_by_what_they_say():
    first, second = (Policy(rate=Rate(5, 1, unit="tokens"), usage={"tokens": "a"}) for _ in range(2))
    assert first == second == first.replace(concurrency=10)
    assert hash(first.usage) == hash(second.usage)
    assert Usage(len) == Usage(len) != Usage(print)
    assert Usage(len) != "Usage(len)"
    assert repr(Usage(len)) == "Usage(<built-in function len>)"
