"""Tokens: what a token file may say, and what is known of it afterwards."""

from __future__ import annotations

from hashlib import sha256

import pytest

from comity.errors import OptionsError
from comity.web.security import Tokens, is_loopback
from tests.web.stage import staged

TOKEN = "0123456789abcdef"


def test_a_token_may_stand_as_its_digest():
    tokens = Tokens([f"me read,submit sha256:{sha256(TOKEN.encode()).hexdigest()}"])
    assert tokens.holder(TOKEN) == ("me", {"read", "submit"})
    assert tokens.holder("another-token-00") is None


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
    assert Tokens.of(tmp_path / "tokens").holder(TOKEN) == ("me", {"admin"})
    with pytest.raises(OptionsError, match="none"):
        Tokens.of(tmp_path / "none")


async def test_the_log_tells_who_did_what_to_which(tmp_path, caplog):
    """By the token's name; a name in a path stands there only where there is something of that name."""
    lines = [f"shop submit {TOKEN}", f"ops admin {TOKEN[::-1]}"]
    async with staged(tmp_path, tokens=Tokens(lines)) as api:
        shop, ops = ({"Authorization": f"Bearer {token}"} for token in (TOKEN, TOKEN[::-1]))
        number = await api.submit(shop)
        caplog.set_level("INFO", "comity.web")
        await api.call("POST", f"/requests/{number}/cancel", headers=ops)
        await api.call("POST", "/requests/none/cancel", headers=shop)
        await api.call("PATCH", "/lanes/mail", {"paused": True}, headers=shop)
        await api.call("GET", "/requests")
    told = [record.fields for record in caplog.records if record.name == "comity.web"]
    assert [(each["status"], each.get("who"), each.get("id"), each.get("key")) for each in told] == [
        (200, "ops", number, None),
        (404, "shop", None, None),
        (403, "shop", None, None),
        (401, None, None, None),
    ]
    assert TOKEN not in str(told)


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("192.168.1.1", False), ("localhost.evil.example", False), ("", False)],
)  # fmt: skip
def test_loopback_is_what_only_this_machine_reaches(host, is_it):
    assert is_loopback(host) is is_it


async def test_a_host_whose_brackets_do_not_end_is_none_of_this_machine(api):
    status, told, _ = await api.call("GET", "/requests", headers={"Host": "[::1"})
    assert (status, told["status"]) == (403, 403)
