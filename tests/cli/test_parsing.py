"""Options of the command line: what they mean, and how a wrong one is told."""

from __future__ import annotations

import pytest

from comity.cli import parsing
from comity.errors import OptionsError
from comity.policy.adaptive import Adaptive
from comity.policy.breaker import Breaker
from comity.policy.hedge import Hedge
from comity.policy.host_rules import HostRules
from comity.policy.options import Policy
from comity.policy.rate import Rate
from comity.policy.usage import Usage


def test_what_is_not_given_keeps_its_default():
    assert parsing.policy() == Policy()


def test_every_limit_is_taken():
    """PF-029..034: rates, concurrency, gap, retries and waits in the same words as everywhere."""
    found = parsing.policy(
        rate=["50/5s", "90000 tokens/min"],
        at_once="20",
        min_gap="250ms",
        retries="4",
        max_retry_wait="5min",
        timeout="20",
        deadline="2min",
        measured="server",
    )
    assert found.rate == (
        Rate(50, 5, measured="server"),
        Rate(90_000, 60, unit="tokens", measured="server"),
    )
    assert (found.concurrency, found.min_gap, found.deadline) == (20, 0.25, 120)
    assert (found.retry.attempts, found.retry.max_retry_after, found.timeout.attempt) == (5, 300, 20)


@pytest.mark.parametrize("off", ["off", "OFF", "none"])
def test_a_limit_can_be_off(off):
    found = parsing.policy(rate=[off], at_once=off)
    assert (found.rate, found.concurrency) == ((), None)


@pytest.mark.parametrize(
    ("options", "option", "example"),
    [
        ({"rate": ["ten/s"]}, "--rate", "100/min"),
        ({"rate": ["60/fortnight"]}, "--rate", "100/min"),
        ({"rate": ["0"]}, "--rate", "'off' removes the limit"),
        ({"at_once": "0"}, "--concurrency", "'off' removes the limit"),
        ({"at_once": "many"}, "--concurrency", "1 or more"),
        ({"at_once": "1_000"}, "--concurrency", "1 or more"),
        ({"min_gap": "5 parsecs"}, "--min-gap", "250ms"),
        ({"retries": "-1"}, "--retries", "0 up to"),
        ({"max_retry_wait": "x"}, "--max-retry-wait", "60s"),
        ({"timeout": "0"}, "--timeout", "60s"),
        ({"deadline": "soon"}, "--deadline", "60s"),
    ],
)
def test_a_wrong_value_is_told_with_option_value_and_example(options, option, example):
    with pytest.raises(OptionsError) as caught:
        parsing.policy(**options)
    (value,) = options.values()
    value = value[0] if isinstance(value, list) else value
    for part in (f"{option}={value!r}", example):
        assert part in str(caught.value)


def test_a_host_gets_its_own_limits_over_the_common_ones():
    common = parsing.policy(at_once="7", retries="1")
    found = parsing.hosts(
        ["API.example.com rate=50/5s rate=90000 tokens/min min-gap=1s", "b:81 concurrency=off"], common, "client"
    )
    assert found == {
        "api.example.com": common.replace(rate=[Rate(50, 5), Rate(90_000, 60, unit="tokens")], min_gap=1),
        "b:81": common.replace(concurrency=None),
    }


@pytest.mark.parametrize("rate", ["rate=9 tokens/min", "rate='9 tokens/min'", 'rate="9 tokens/min"'])
def test_a_budget_of_one_group_has_its_usage_from_the_common_options(rate):
    common = parsing.policy(usage=["tokens=usage.total"])
    found = parsing.hosts([f"a.example json:model=small {rate}"], common, "client")
    rules = HostRules(common, found)
    assert rules.policies[1].rate == (Rate(9, 60, unit="tokens"),)
    assert rules.policies[1].usage == Usage({"tokens": "usage.total"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a host and its limits"),
        ("api.example.com", "a host and its limits"),
        ("rate=5/s", "a host and its limits"),
        ("h rate=ten", "100/min"),
        ("h speed=5", "'speed' is none of rate, concurrency, min_gap, group, adaptive, breaker"),
        ("h group=model", "json:model"),
        ("h k rate=5/s", "'h k' is no host"),
        ("h fast", "'fast' is no limit"),
        ("h concurrency=x", "1 or more"),
        ("h concurrency=0", "'off' removes the limit"),
        ("http://127.0.0.1:80/x rate=5/s", "a host is named without http://: '127.0.0.1:80'"),
        ("*.a.com rate=5/s", "'*.a.com' is no host"),
    ],
)
def test_a_wrong_host_is_told_with_an_example(text, says):
    with pytest.raises(OptionsError) as caught:
        parsing.hosts([text], Policy(), "client")
    assert f"--host={text!r}" in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["u:SECRET@h rate=x", "http://u:SECRET@h rate=5/s"])
def test_a_password_before_a_host_is_not_told(text):
    """SC-05"""
    with pytest.raises(OptionsError, match="--host") as caught:
        parsing.hosts([text], Policy(), "client")
    assert "SECRET" not in str(caught.value)


def test_a_group_of_a_hosts_requests_gets_limits_too():
    found = parsing.hosts(
        ["POST API.x.com/search/* json:model=gpt-* rate=30/min", "api.x.com group=json:model rate=5/s"],
        Policy(),
        "client",
    )
    assert found == {
        "POST api.x.com/search/* json:model=gpt-*": Policy(rate="30/min"),
        "api.x.com": Policy(rate="5/s", group="json:model"),
    }


def test_a_host_named_twice_is_refused():
    with pytest.raises(OptionsError, match="named twice"):
        parsing.hosts(["h rate=5/s", "H rate=6/s"], Policy(), "client")


def test_headers_are_taken_apart_at_the_first_colon():
    assert parsing.headers(["Accept: a/b", "X-T:1:2"]) == {"Accept": "a/b", "X-T": "1:2"}


def test_a_header_that_is_given_twice_is_refused_with_the_way_to_send_both():
    with pytest.raises(OptionsError, match="with commas: 'x-a: a, b'; x-a is given twice") as caught:
        parsing.headers(["X-A: s3cret", "x-a: 0ther"])
    assert "s3cret" not in str(caught.value)
    assert "0ther" not in str(caught.value)


def test_headers_can_stand_in_a_file(tmp_path):
    (tmp_path / "secret").write_text("Authorization: Bearer x\n\nX-A: 1\n", encoding="utf-8")
    assert parsing.headers([f"@{tmp_path}/secret", "X-B: 2"]) == {"Authorization": "Bearer x", "X-A": "1", "X-B": "2"}
    with pytest.raises(OptionsError, match="no such file"):
        parsing.headers([f"@{tmp_path}/nowhere"])


@pytest.mark.parametrize("text", ["SECRET", "X Y: SECRET", "X: SECRET\r\nZ: 1"])
def test_a_wrong_header_is_told_without_its_value(text):
    """HI-01, SC-05"""
    with pytest.raises(OptionsError, match="--header") as caught:
        parsing.headers([text])
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (parsing.measured, "here"),
        (parsing.method, "GE T"),
        (parsing.progress, "loud"),
        (parsing.delimiter, "ab"),
        (parsing.delimiter, '"'),
        (parsing.output, "out.csv"),
        (parsing.output, "out.jsonl.gz"),
        (lambda text: parsing.body_template("1", text), "x"),
        (lambda text: parsing.header_name(text, "--idempotency-key"), "a b"),
    ],
)
def test_other_wrong_words_are_told(check, text):
    with pytest.raises(OptionsError, match=f"'{text}'"):
        check(text)


@pytest.mark.parametrize(("text", "found"), [(";", ";"), ("tab", "\t"), ("\\t", "\t"), ("|", "|")])
def test_a_delimiter_is_one_character(text, found):
    assert parsing.delimiter(text) == found


@pytest.mark.parametrize("name", ["out.jsonl", "out", "out.ndjson", "out.db", "/dev/stdout"])
def test_other_names_of_outputs_are_taken(name):
    assert parsing.output(name) == name


def test_costs_and_usages_are_read():
    assert parsing.cost("5") == 5
    assert parsing.cost("tokens=1200,requests=2") == {"tokens": 1200, "requests": 2}
    policy = parsing.policy(
        rate=["9 tokens/min"], usage=["tokens=usage.input_tokens + usage.output_tokens", "tokens=more"]
    )
    assert policy.usage == Usage({"tokens": ["usage.input_tokens", "usage.output_tokens", "more"]})


@pytest.mark.parametrize("text", ["x", "-1", "tokens=x", "tokens", "9tokens=1", "tokens=1,"])
def test_a_wrong_cost_is_told(text):
    with pytest.raises(OptionsError, match="--cost"):
        parsing.cost(text)


def test_an_adaptive_algorithm_is_read_and_a_wrong_one_is_told():
    assert parsing.policy(adaptive="auto").adaptive == Adaptive()
    assert parsing.policy(adaptive="ema").adaptive == Adaptive(algorithm="ema")
    with pytest.raises(OptionsError, match=r"--adaptive.*auto"):
        parsing.policy(adaptive="vegas")


def test_a_hedge_is_read_and_a_wrong_one_is_told():
    assert parsing.policy(hedge="p95").hedge == Hedge()
    assert parsing.policy(hedge="300ms").hedge == Hedge(after=0.3)
    with pytest.raises(OptionsError, match="--hedge"):
        parsing.policy(hedge="p20")


def test_a_usage_without_a_budget_is_told():
    with pytest.raises(OptionsError, match="--usage"):
        parsing.policy(usage=["usage.total_tokens"])


def test_a_switch_is_on_or_off():
    assert [parsing.switch(text, "--breaker") for text in ("on", "off")] == [True, False]
    with pytest.raises(OptionsError, match=r"--breaker.*on"):
        parsing.switch("yes", "--breaker")


def test_a_run_puts_off_what_its_budget_does_not_pay_for():
    found = parsing.policy_of_run(breaker="off", at_once="3")
    assert (found.concurrency, found.breaker, found.retry_budget.empty) == (3, None, "defer")


def test_one_host_may_adapt_or_not_and_have_a_breaker_or_not():
    given = ["a.test adaptive=auto", "b.test adaptive=off breaker=off concurrency=3"]
    found = parsing.hosts(given, Policy(adaptive="ema", breaker=True), "client")
    assert (found["a.test"].adaptive, found["a.test"].breaker) == (Adaptive(), Breaker())
    assert (found["b.test"].adaptive, found["b.test"].breaker) == (None, None)
    for text in ("a.test adaptive=vegas", "a.test breaker=yes", "a.test adaptive=auto breaker=off"):
        with pytest.raises(OptionsError, match="--host"):
            parsing.hosts([text], Policy(), "client")
