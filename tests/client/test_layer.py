"""TlsLayer: TLS on a connection that is open already, for a protocol that pauses, closes and writes late."""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

import pytest

from comity.client.layer import TlsLayer
from comity.client.tls import TLS
from tests.client.certificate import CA, serving
from tests.client.scripted import Peer, Scripted

DATA = bytes(range(256)) * 8_000


class Inner(asyncio.Protocol):
    """Keeps what it gets; with `pauses`, it stops reading at each piece until it is told to go on."""

    def __init__(self, *, pauses: bool = False) -> None:
        self.pauses = pauses
        self.got = bytearray()
        self.told: list[str] = []
        self.end = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert not self.end.done()
        self.got += data
        if self.pauses:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self.transport.resume_reading)

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")
        self.end.set_result(exc)


async def layered(server: Scripted, inner: Inner) -> TlsLayer:
    outer, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", server.port)
    layer = TlsLayer(outer, inner, TLS(ca=CA).context, "localhost")
    await layer.handshake()
    return layer


async def pour(peer: Peer) -> None:
    """Send a lot and say goodbye."""
    await peer.send(DATA)


@pytest.mark.parametrize("pauses", [False, True])
async def test_everything_arrives_in_order_before_the_end(pauses):
    async with Scripted(pour, tls=serving()) as server, asyncio.timeout(10):
        inner = Inner(pauses=pauses)
        await layered(server, inner)
        assert await inner.end is None
        assert inner.got == DATA
        assert inner.told == ["made", "lost"]


async def test_a_paused_protocol_gets_nothing_until_it_goes_on():
    async def two(peer: Peer) -> None:
        await peer.send(b"first")
        await peer.reader.readexactly(4)
        await peer.send(b"second")

    async with Scripted(two, tls=serving()) as server, asyncio.timeout(10):
        inner = Inner()
        layer = await layered(server, inner)
        layer.pause_reading()
        layer.write(b"more")
        await server.until(lambda server: server.open == 0)
        assert bytes(inner.got) in {b"", b"first"}
        layer.resume_reading()
        await inner.end
        assert inner.got == b"firstsecond"


async def test_a_writer_is_paused_while_the_peer_takes_nothing_and_resumed():
    go = asyncio.Event()

    async def late(peer: Peer) -> None:
        await go.wait()
        assert await peer.reader.readexactly(len(DATA) * 8) == DATA * 8

    async with Scripted(late, tls=serving()) as server, asyncio.timeout(10):
        inner = Inner()
        layer = await layered(server, inner)
        for _ in range(8):
            layer.write(memoryview(DATA))
        assert inner.told == ["made", "pause"]
        assert layer.get_write_buffer_size() > 0
        go.set()
        await inner.end
        assert inner.told[:3] == ["made", "pause", "resume"]


async def test_writing_after_closing_harms_nothing():
    async with Scripted(lambda peer: peer.gone(), tls=serving()) as server, asyncio.timeout(10):
        inner = Inner()
        layer = await layered(server, inner)
        layer.close()
        layer.write(b"late")
        assert layer.is_closing()
        await inner.end
        assert inner.told == ["made", "lost"]


async def test_an_abort_ends_it_at_once_and_delivers_no_more():
    async with Scripted(pour, tls=serving()) as server, asyncio.timeout(10):
        inner = Inner()
        layer = await layered(server, inner)
        before = len(inner.got)
        layer.abort()
        await inner.end
        assert len(inner.got) == before


async def test_the_end_within_the_handshake_is_an_error():
    async with Scripted(lambda peer: peer.reader.read(1)) as server, asyncio.timeout(10):
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await layered(server, Inner())
