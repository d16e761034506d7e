"""Names: a slip of the keyboard is told with the name that was meant."""

from __future__ import annotations

import pytest

from comity.errors import OptionsError
from comity.policy.naming import check_choice, check_names


def test_known_names_pass():
    check_names("Policy", {"rate": 1, "retry": 2}, ("rate", "retry", "timeout"))


def test_an_unknown_name_comes_with_the_nearest():
    with pytest.raises(OptionsError, match="Policy has no such option; did you mean concurrency") as caught:
        check_names("Policy", {"Concurency": 4}, ("rate", "concurrency"))
    assert (caught.value.option, caught.value.value) == ("Concurency", 4)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("measured", 'rate=Rate("50/5s", measured=...)'),
        ("retries", "retry=Retry(retries=...)"),
        ("connect", "timeout=Timeout(connect=...)"),
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
