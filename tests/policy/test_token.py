"""token: what names of methods and headers are made of."""

from __future__ import annotations

import pytest

from comity.policy.token import is_token


@pytest.mark.parametrize("value", ["GET", "x-rate", "!#$%&'*+-.^_`|~09azAZ"])
def test_a_token_is_made_of_letters_digits_and_fifteen_signs(value):
    assert is_token(value)


@pytest.mark.parametrize("value", ["", "a b", "a\n", "a:", "é", "(", b"GET", None, 1])
def test_nothing_else_is_a_token(value):
    assert not is_token(value)
