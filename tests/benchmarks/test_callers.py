"""Callers: answers taken off a connection."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from benchmarks.callers import Caller, at

ANSWER = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{ 1}"


class Line:
    """Where a caller writes; what comes back is in the test's hand."""

    def __init__(self):
        self.written = []

    def write(self, data):
        self.written.append(data)


async def _asked(pieces):
    caller = Caller()
    caller.connection_made(Line())
    asking = asyncio.create_task(caller.ask(b"request"))
    await asyncio.sleep(0)
    for piece in pieces:
        caller.data_received(piece)
    status, body, _ = await asking
    return caller.transport.written, status, body


@given(cut=st.integers(0, len(ANSWER)))
def test_an_answer_is_whole_however_it_comes(cut):
    assert asyncio.run(_asked([ANSWER[:cut], ANSWER[cut:]])) == ([b"request"], 201, b"{ 1}")


def test_a_connection_that_ends_fails_what_is_under_way():
    async def lose():
        caller = Caller()
        caller.connection_made(Line())
        asking = asyncio.create_task(caller.ask(b"request"))
        await asyncio.sleep(0)
        caller.connection_lost(None)
        await asking

    with pytest.raises(ConnectionResetError):
        asyncio.run(lose())


@pytest.mark.parametrize(("share", "time"), [(0.5, 51), (0.99, 100), (0.0, 1), (1.0, 100)])
def test_of_a_hundred_times(share, time):
    assert at([float(number) for number in range(100, 0, -1)], share) == time
