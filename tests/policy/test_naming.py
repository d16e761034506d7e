"""Names: a slip of the keyboard is told with the name that was meant."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.naming import check_choice, check_names, type_of, unusable

SECRET = "hunter2"


def test_known_names_pass():
    check_names("Policy", {"rate": 1, "retry": 2}, ("rate", "retry", "timeout"))


def test_an_unknown_name_comes_with_the_nearest():
    with pytest.raises(OptionsError, match="Policy has no such option; did you mean concurrency") as caught:
        check_names("Policy", {"Concurency": 4}, ("rate", "concurrency"))
    assert (caught.value.option, caught.value.hint) == ("Concurency", "did you mean concurrency?")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("measured", 'rate=Rate("50/5s", measured=...)'),
        ("retries", "retry=Retry(retries=...)"),
        ("connect", "timeout=Timeout(connect=...)"),
        ("token", "headers={...} for a header of its own"),
        ("write", "say send=..."),
        ("har", 'with client.har("calls.har"): ...'),
    ],
)
def test_an_option_of_a_part_comes_with_the_part_it_belongs_to(name, hint):
    with pytest.raises(OptionsError) as caught:
        check_names("AsyncClient", {name: 1}, ("rate", "retry", "timeout"))
    assert caught.value.hint.endswith(hint)


def test_a_name_like_no_other_comes_without_a_guess():
    with pytest.raises(OptionsError) as caught:
        check_names("Policy", {"xyz": 1}, ("rate", "concurrency"))
    assert caught.value.hint == ""


@pytest.mark.parametrize(("value", "hint"), [("clam", "did you mean clamp?"), (True, ""), (None, "")])
def test_a_choice_is_one_of_its_words(value, hint):
    check_choice("fail", "over_cap", ("fail", "clamp"))
    with pytest.raises(OptionsError, match='one of "fail" or "clamp"') as caught:
        check_choice(value, "over_cap", ("fail", "clamp"))
    assert caught.value.hint == hint


@pytest.mark.parametrize(("name", "value"), [("auth", ("me", SECRET)), ("token", SECRET), ("tokn", SECRET)])
def test_what_an_unknown_name_was_given_is_not_shown(name, value):
    """SC-01"""
    with pytest.raises(OptionsError) as caught:
        check_names("request", {name: value}, ("rate", "headers"))
    assert str(caught.value).startswith(f"{name} cannot be used: request has no such option")
    assert SECRET not in f"{caught.value!r} {vars(caught.value)}"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("passphrase", SECRET),
        ("tls.key", SECRET.encode()),
        ("rate", f"https://me:{SECRET}@api.example"),
        ("hosts", f"me:{SECRET}@api.example"),
        ("rate", [f"https://me:{SECRET}@api.example"]),
        ("timeout", f"token={SECRET}"),
    ],
)
def test_no_secret_in_a_value_is_shown(option, value):
    """SC-01"""
    error = unusable(option, value, "another value")
    assert SECRET not in f"{error!r} {vars(error)}"
    assert "another value" in str(error)


@pytest.mark.parametrize("value", ["50/5", 7, None, [1, "2"], 2.5])
def test_a_value_without_secrets_is_kept_and_shown(value):
    error = unusable("rate", value, "another value")
    assert error.value is value
    assert f"rate={value!r} cannot be used" in str(error)


@pytest.mark.parametrize(
    ("value", "said"),
    [(5, "an int"), (OSError(), "an OSError"), ([], "a list"), (b"s3cr3t", "a bytes"), (None, "None")],
)
def test_a_value_that_must_not_be_shown_is_told_by_its_type(value, said):
    assert type_of(value) == said
