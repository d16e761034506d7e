"""Events over HTTP: what followers see, whence they go on, and how little they cost."""

from __future__ import annotations

import asyncio
import json
import re
import select
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from comity.store.records import NewDelivery
from comity.web.feed import Feed
from comity.web.streams import Stream
from tests.web.stage import LANE, DownStore, staged


async def read(response, count):
    """Return so many events (id, kind) of a stream."""
    found, number = [], None
    while len(found) < count:
        line = (await response.content.readline()).decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            found.append((number, json.loads(value)["kind"]))
    return found


def left_in(stuck):
    """Return what a socket has received when it is reset."""
    reset = select.poll()
    reset.register(stuck, 0)  # errors alone
    assert reset.poll(30_000)
    found = b""
    with suppress(ConnectionResetError):
        while part := stuck.recv(1 << 16):
            found += part
    return found


async def test_what_happens_is_told_as_it_happens(api):
    await api.submit()
    await api.followed()
    async with api.session.get(f"{api.url}/events") as response:
        assert response.content_type == "text/event-stream"
        await response.content.readline()
        number = await api.submit()
        await api.call("POST", f"/requests/{number}/cancel")
        assert await read(response, 2) == [(2, "pending"), (3, "cancelled")]


async def test_a_follower_that_comes_back_misses_nothing(api):
    for _ in range(3):
        await api.submit()
    async with api.session.get(f"{api.url}/events", headers={"Last-Event-ID": "1"}) as response:
        assert await read(response, 2) == [(2, "pending"), (3, "pending")]
    async with api.session.get(f"{api.url}/events?after=0") as response:
        assert [number for number, _ in await read(response, 3)] == [1, 2, 3]


async def test_events_are_there_after_a_restart(tmp_path):
    async with staged(tmp_path) as api:
        await api.submit()
        await api.submit()
    async with staged(tmp_path) as api:
        assert api.service.feed.last == 2
        async with api.session.get(f"{api.url}/events", headers={"Last-Event-ID": "1"}) as response:
            assert await read(response, 1) == [(2, "pending")]


async def test_older_events_than_memory_holds_come_from_the_store(api):
    await api.store.submit([])
    for _ in range(3):
        await api.submit()
    await api.followed()
    del api.service.feed._kept[:2]
    assert [event.seq for event in await api.service.feed.after(0, 1)] == [1, 2, 3]


async def test_followers_share_the_text_of_an_event(api):
    """However many there are, and wherever each of them is."""
    for _ in range(3):
        await api.submit()
    await api.followed()
    first, second = await api.service.feed.after(0, 1), await api.service.feed.after(1, 1)
    assert [message.seq for message in second] == [2, 3]
    assert all(message.text is other.text for message, other in zip(first[1:], second, strict=True))


async def test_silence_is_filled_with_signs_of_life(tmp_path):
    async with staged(tmp_path, heartbeat=0.001) as api, api.session.get(f"{api.url}/events") as response:
        lines = [(await response.content.readline()).decode() for _ in range(4)]
    assert lines == ["retry: 2000\n", "id: 0\n", "\n", ": alive\n"]


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "٣"])
async def test_what_is_no_number_is_refused(api, given):
    assert (await api.call("GET", "/events", params={"after": given}))[0] == 422


async def test_followers_are_sent_home_when_the_service_stops(api):
    number = await api.submit()
    async with api.session.get(f"{api.url}/events") as response:
        waits = asyncio.create_task(api.call("GET", f"/requests/{number}", headers={"Prefer": "wait=60"}))
        await api.waited_for()
        api.service.feed.stop()
        assert (await waits)[1]["status"] == "pending"
        assert (await response.content.read()).startswith(b"retry")
    assert (await api.call("GET", "/readyz"))[0] == 503


async def test_a_reader_that_does_not_read_is_left():
    closed = []

    async def pieces():
        try:
            while True:
                yield b"x"
        finally:
            closed.append(True)

    async def never():
        await asyncio.Event().wait()

    async def full(message):
        if message["type"] == "http.response.body":
            await never()

    await Stream(pieces(), "text/plain", patience=0.001, watch=True)({"type": "http", "method": "GET"}, never, full)
    assert closed == [True]


async def test_a_reader_that_stops_reading_holds_up_nobody_and_goes_on_where_it_was(tmp_path, caplog):
    """Its connection is given up, with what was not written to it, once a write took too long."""
    async with staged(tmp_path, patience=1) as api:
        with socket.socket() as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect(("127.0.0.1", urlsplit(api.url).port))
            stuck.sendall(b"GET /events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            many = [NewDelivery(origin=LANE, lane="x" * 200, method="GET", url=LANE)] * 500
            async with api.session.get(f"{api.url}/events?after=0") as response:
                reading = asyncio.create_task(read(response, 15_000))
                for _ in range(30):
                    await api.store.submit(many)
                assert (await reading)[-1] == (15_000, "pending")
            left = await asyncio.to_thread(left_in, stuck)
        seen = max(map(int, re.findall(rb"\nid: (\d+)\n", left)))
        assert seen < 15_000  # what lies in the buffers of two sockets
        async with api.session.get(f"{api.url}/events", headers={"Last-Event-ID": str(seen)}) as response:
            assert (await read(response, 1))[0][0] == seen + 1
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_reader_that_goes_is_not_written_to_any_more():
    async def pieces():
        await asyncio.Event().wait()
        yield b""

    async def gone():
        return {"type": "http.disconnect"}

    sent = []

    async def send(message):
        sent.append(message["type"])

    await Stream(pieces(), "text/plain", watch=True)({"type": "http", "method": "GET"}, gone, send)
    assert sent == ["http.response.start"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9])
async def test_a_feed_begins_behind_the_last_event(api, count):
    for _ in range(count):
        await api.submit()
    async with Feed(api.store) as feed:
        assert feed.last == count


async def test_a_follower_of_a_store_that_is_down_is_let_go(tmp_path):
    async with staged(tmp_path, wrap=DownStore) as api:
        await api.submit()
        await api.followed()
        api.service.feed._kept.clear()
        api.store.down = True
        async with api.session.get(f"{api.url}/events?after=0") as response:
            assert await response.content.read() == b"retry: 2000\nid: 0\n\n"
