"""Tokens: what a token file may say, and what is known of it afterwards."""

from __future__ import annotations

from hashlib import sha256

import pytest

from comity.errors import OptionsError
from comity.web.security import Tokens, is_loopback

TOKEN = "0123456789abcdef"


def test_a_token_may_stand_as_its_digest():
    tokens = Tokens([f"me read,submit sha256:{sha256(TOKEN.encode()).hexdigest()}"])
    assert tokens.scopes(TOKEN) == {"read", "submit"}
    assert tokens.scopes("another-token-00") == set()


def test_no_token_is_kept_in_memory():
    tokens = Tokens([f"me admin {TOKEN}"])
    assert TOKEN not in repr(vars(tokens))


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["# nobody"],
        [f"me {TOKEN}"],
        [f"me read {TOKEN} more"],
        [f"me root {TOKEN}"],
        ["me read short"],
        ["me read sha256:abcd"],
        ["me read sha256:xyz"],
    ],
)
def test_a_file_that_says_something_else_is_refused_without_telling_it(lines):
    with pytest.raises(OptionsError) as refused:
        Tokens(lines)
    assert TOKEN not in str(refused.value)


def test_a_file_is_read_or_named(tmp_path):
    (tmp_path / "tokens").write_text(f"me admin {TOKEN}\n")
    assert Tokens.of(tmp_path / "tokens").scopes(TOKEN) == {"admin"}
    with pytest.raises(OptionsError, match="none"):
        Tokens.of(tmp_path / "none")


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("192.168.1.1", False), ("localhost.evil.example", False), ("", False)],
)  # fmt: skip
def test_loopback_is_what_only_this_machine_reaches(host, is_it):
    assert is_loopback(host) is is_it
