"""What is under way in great numbers, and what a URL looks like on the wire."""

from __future__ import annotations

import asyncio

from comity.client.async_client import AsyncClient
from tests.client.scripted import OK, Peer, Scripted, answer, ok

PRESIGNED = (
    "/b/k%20e%2By?X-Amz-Credential=AKIA%2F20261130%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date=20261130T000000Z"
    "&response-content-disposition=attachment%3B+filename%3D%22a%20b.csv%22&e=1%3A2.&empty=&X-Amz-Signature=rX7%2FXCC%2Bw%3D"
)


async def test_a_presigned_url_arrives_byte_for_byte():
    """PE-01"""
    async with Scripted(answer(OK)) as server, AsyncClient(server.url) as api:
        await api.get(server.url + PRESIGNED)
        await api.get(PRESIGNED)
        assert [seen.line for seen in server.seen] == [f"GET {PRESIGNED} HTTP/1.1"] * 2


async def test_a_thousand_requests_cancelled_in_flight_leave_no_socket_and_a_working_client():
    """CA-01"""

    async def script(peer: Peer) -> None:
        while (await peer.request()).target != "/hang":
            await peer.send(ok())
        await peer.gone()

    async with (
        Scripted(script) as server,
        AsyncClient(server.url, concurrency=None, max_connections=None, deadline=None) as api,
    ):
        calls = [asyncio.ensure_future(api.get("/hang")) for _ in range(1000)]
        async with asyncio.timeout(30):
            while len(server.seen) < len(calls):
                await asyncio.wait(calls, timeout=0.01)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        await server.until(lambda state: state.open == 0, within=30)
        stats = api.stats()
        assert (stats.running, stats.queued) == (0, 0)
        assert (await api.get("/again")).status_code == 200
        assert server.open == 1
