"""paced_fetch: a client as one function."""

from __future__ import annotations

import pytest

from comity import HostBlocked, OptionsError, RateLimited, paced_fetch
from comity.policy.events import Event
from comity.testing import Answer, ScriptedTransport
from tests.client.scripted import Scripted, answer, ok


def test_it_is_called_like_fetch(clock):
    """PF-001, PF-003..005, PF-023: a URL, and if need be a method and more; the answer comes back whatever it says."""
    transport, events = ScriptedTransport(200, 404, 503, 503, 503), []

    async def program(fetch):
        first = await fetch("https://api.deezer.com/album/1")
        second = await fetch("https://other.example/x", method="POST", json={"a": 1}, headers={"X-A": "b"})
        third = await fetch("https://other.example/y")
        return first.status_code, second.status_code, third.status_code

    hosts = {"deezer.com": {"rate": "50/5s"}}
    fetch = paced_fetch(hosts=hosts, on_event=events.append, retry=2, clock=clock, transport=transport)
    assert clock.run(program(fetch)) == (200, 404, 503)
    assert [each.method for each in transport.requests] == ["GET", "POST", "GET", "GET", "GET"]
    assert transport.requests[1].content == b'{"a":1}'
    assert set(fetch.stats().hosts) == {"deezer.com", "other.example"}
    assert {type(each) for each in events} == {Event}


def test_a_wait_longer_than_allowed_is_an_error_with_a_time_and_so_is_every_call_until_then(clock):
    """PF-017, PF-018."""
    transport = ScriptedTransport(Answer(429, headers={"Retry-After": "300"}))

    async def program(fetch):
        async with fetch:
            with pytest.raises(RateLimited) as first:
                await fetch("https://api.example/x")
            with pytest.raises(HostBlocked) as second:
                await fetch("https://api.example/y")
        return first.value.until, second.value.until

    first, second = clock.run(program(paced_fetch(clock=clock, transport=transport)))
    assert first == second
    assert len(transport.requests) == 1


async def test_it_fetches_from_a_real_server():
    """PF-001."""
    async with Scripted(answer(ok(b"abc"))) as server, paced_fetch(server.url, rate="10/s") as fetch:
        assert (await fetch("/x")).content == b"abc"


def test_its_options_are_checked_like_a_clients():
    with pytest.raises(OptionsError, match="did you mean rate"):
        paced_fetch(rat="1/s")
