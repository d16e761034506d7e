"""Hedging in a client: the answer that is there first, with both sends among its attempts."""

from __future__ import annotations

import asyncio
from collections import Counter

from comity.client.async_client import AsyncClient
from comity.policy.hedge import Hedge
from tests.client.scripted import Peer, Scripted, ok

SOON = Hedge(after=0.05)


class Late:
    """A server that answers nobody before two requests of the path /hedged have come."""

    def __init__(self) -> None:
        self.server = Scripted(self.serve)

    async def serve(self, peer: Peer) -> None:
        seen = await peer.request()
        await self.server.until(lambda server: self.count(server)["/hedged"] > 1, within=30)
        await peer.send(ok(seen.line.encode()))

    def count(self, server: Scripted) -> Counter[str]:
        return Counter(seen.line.split()[1] for seen in server.seen)


async def test_a_late_request_is_sent_once_more_and_the_first_answer_counts():
    async with Late().server as server, AsyncClient(server.url, hedge=SOON) as api:
        response = await api.get("/hedged")
        assert response.text == "GET /hedged HTTP/1.1"
        assert sorted(each.number for each in response.attempts) == [1, 2]
        assert [each.decision for each in response.attempts] == ["superseded", "done"]
        assert response.timings is response.attempts[-1].timings
        assert api.stats().running == 0


async def test_what_may_not_be_repeated_and_what_is_streamed_is_sent_once():
    late = Late()
    async with late.server as server, AsyncClient(server.url, hedge=SOON) as api:

        async def streamed() -> bytes:
            async with api.stream("GET", "/streamed") as response:
                return await response.read()

        # Both are late before the hedged one is.
        others = [asyncio.create_task(work) for work in (api.post("/posted", content=b"a"), streamed())]
        await server.until(lambda server: len(server.seen) == 2)
        await api.get("/hedged")
        await asyncio.gather(*others)
        assert late.count(server) == {"/posted": 1, "/streamed": 1, "/hedged": 2}
