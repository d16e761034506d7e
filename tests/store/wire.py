"""Wire: the network between a store and its Postgres server, which a test cuts, or has swallow what it is given."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Wire:
    """Connections to a server, by way of this process.

    Args:
        server: its address.
    """

    def __init__(self, server):
        self._server = server
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks, self._writers = set(), set()

    def cut(self):
        """End every connection, as a router that was started anew does."""
        for writer in self._writers:
            writer.transport.abort()

    def swallow(self):
        """Let nothing through any more, and say so to nobody."""
        self._flows.clear()

    def mend(self):
        """Let everything through again, what was swallowed first."""
        self._flows.set()

    async def serve(self, reader, writer):
        """Be one connection."""
        task = asyncio.current_task()
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._server)
            self._writers.add(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, far_writer))
                group.create_task(self._pass(far_reader, writer))
        except* OSError:
            pass
        finally:
            self._tasks.discard(task)

    async def _pass(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def end(self):
        """End all of it."""
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def wired(dsn):
    """Have a wire to a database; give it and the address that leads through it."""
    place = urlsplit(dsn)
    wire = Wire((place.hostname, place.port or 5432))
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield wire, place._replace(netloc=f"{place.username}@127.0.0.1:{port}").geturl()
    finally:
        server.close()
        await wire.end()
        await server.wait_closed()
