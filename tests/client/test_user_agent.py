"""User agent: who a client says it is."""

from __future__ import annotations

import pytest

from comity.client.async_client import AsyncClient
from comity.errors import OptionsError
from tests.client.scripted import OK, Scripted, answer


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, "comity/0.1.0"),
        ({"contact": "me@example.com"}, "comity/0.1.0 (+mailto:me@example.com)"),
        ({"contact": "https://example.com/bot?team=a"}, "comity/0.1.0 (+https://example.com/bot?team=a)"),
        ({"headers": {"user-agent": "mine/1"}}, "mine/1"),
    ],
)
async def test_a_client_names_itself_and_whom_to_write_to(options, sent):
    async with Scripted(answer(OK)) as server, AsyncClient(server.url, **options) as api:
        await api.get("/x")
        assert server.seen[0].all("User-Agent") == [sent]


@pytest.mark.parametrize(
    "contact",
    [
        "",
        "me",
        "me@",
        "@example.com",
        "a b@example.com",
        "me@ex\r\nX: y",
        "me@example.com)",
        "ftp://h",
        "https://u:p@h",
        7,
        b"a@b",
    ],
)
def test_what_is_no_address_is_refused(contact):
    with pytest.raises(OptionsError) as caught:
        AsyncClient(contact=contact)
    assert caught.value.option == "contact"


def test_a_contact_beside_a_user_agent_of_ones_own_is_refused():
    with pytest.raises(OptionsError, match="User-Agent"):
        AsyncClient(contact="me@example.com", headers={"User-Agent": "mine/1"})
