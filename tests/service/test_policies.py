"""Policies: what a submission asks for by name, what it says itself, and what is stored of both."""

from __future__ import annotations

import msgspec
import pytest

from comity.errors import OptionsError
from comity.service.guard import Guard
from comity.service.policies import Policies
from comity.service.submit import Refused, read, to_deliver
from comity.service.terms import Terms
from comity.service.vault import Vault
from comity.settings import Entry

GUARD = Guard()
PLAIN = {"url": "https://api.example/x", "method": "POST"}
GENTLE = {"max_retries": 8, "backoff_ms": 2000, "strict_4xx": True, "timeout_ms": 10_000}


def policies(**tables):
    return Policies({name: entry(name, options) for name, options in tables.items()})


def entry(name, options):
    return Entry(name=name, options=options, label=lambda option: f'policies."{name}".{option} (in c.toml)')


def stored(known, vault=None, **fields):
    return to_deliver(read(msgspec.json.encode(PLAIN | fields)), GUARD, policies=known, vault=vault or Vault())


@pytest.mark.parametrize(
    ("own", "terms"),
    [
        ({}, GENTLE),
        ({"maxRetries": 5}, GENTLE | {"max_retries": 5}),
        ({"strict4xx": False}, GENTLE | {"strict_4xx": False}),
        ({"backoffMs": 100, "timeoutMs": 1}, GENTLE | {"backoff_ms": 100, "timeout_ms": 1}),
        ({"timeoutMs": None}, GENTLE | {"timeout_ms": None}),
    ],
)
def test_fields_of_a_submission_win_over_its_policy_also_where_they_say_the_default(own, terms):
    """The more special wins."""
    new = stored(policies(gentle=GENTLE), policy="gentle", **own)
    assert Terms.read(new.options) == Terms(**terms, policy="gentle")
    assert new.max_attempts == terms["max_retries"] + 1


def test_what_neither_says_has_its_default():
    new = stored(policies(quick={"timeout_ms": 500}), policy="quick")
    assert Terms.read(new.options) == Terms(timeout_ms=500, policy="quick")
    assert stored(policies(gentle=GENTLE)) == stored(Policies())


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (policies(gentle=GENTLE, hasty={}), 'one of "gentle" or "hasty"; did you mean gentle?'),
        (Policies(), "none is configured here, by a table [policies.NAME]"),
    ],
)
def test_an_unknown_policy_is_refused_with_those_that_are_known(known, said):
    with pytest.raises(Refused) as refused:
        stored(known, policy="gentel")
    assert refused.value.field == "policy"
    assert said in str(refused.value)


@pytest.mark.parametrize("vault", [Vault(), Vault([b"k" * 32])])
def test_the_same_submission_stays_the_same_when_its_policy_has_changed(vault):
    """What counts is what was given."""
    fields = {"policy": "gentle", "headers": {"Authorization": "x"}, "idempotencyKey": "k"}
    before = stored(policies(gentle=GENTLE), vault, **fields)
    after = stored(policies(gentle=GENTLE | {"max_retries": 1}), vault, **fields)
    assert after.is_as(before.fingerprint)
    assert Terms.read(after.options).max_retries == 1
    other = stored(policies(gentle=GENTLE, same=GENTLE), vault, **fields | {"policy": "same"})
    assert not other.is_as(before.fingerprint)
    assert not stored(policies(gentle=GENTLE), vault, **fields, maxRetries=8).is_as(before.fingerprint)
    # The default, said aloud, is not what the policy has.
    assert not stored(policies(gentle=GENTLE), vault, **fields, maxRetries=5).is_as(before.fingerprint)


@pytest.mark.parametrize(
    ("options", "option", "allowed"),
    [
        ({"max_retries": 0}, "max_retries", "int >= 1"),
        ({"max_retries": 1001}, "max_retries", "int <= 1000"),
        ({"max_retries": "8"}, "max_retries", "int, got str"),
        ({"backoff_ms": 1}, "backoff_ms", "int >= 100"),
        ({"strict_4xx": 1}, "strict_4xx", "bool"),
        ({"timeout_ms": 0}, "timeout_ms", "int >= 1"),
        ({"backoff": 8}, "backoff", "signed; did you mean backoff_ms?"),
        (
            {"maxRetries": 8},
            "maxRetries",
            "one of max_retries, backoff_ms, strict_4xx, timeout_ms, signed; did you mean",
        ),
    ],
)
def test_a_mistake_names_file_policy_option_and_what_is_allowed(options, option, allowed):
    with pytest.raises(OptionsError) as refused:
        policies(gentle=options)
    assert str(refused.value).startswith(f'policies."gentle".{option} (in c.toml)')
    assert allowed in str(refused.value)


def test_a_policy_without_a_name_is_refused():
    with pytest.raises(OptionsError, match="names that are not blank"):
        policies(**{"": GENTLE})
