"""The way to a server, which a test cuts and mends, or lets nothing through without a word."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class Proxy:
    """Passes connections on to the server that a URL names; `url` leads there by this way.

    Args:
        url: the server's.
    """

    def __init__(self, url):
        self._parts = urlsplit(url)
        self._port, self._server = 0, None
        self._open = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._word, self.swallowed = None, asyncio.Event()

    @property
    def url(self):
        return self._parts._replace(netloc=f"{self._parts.username}@127.0.0.1:{self._port}").geturl()

    async def __aenter__(self):
        await self.mend()
        return self

    async def __aexit__(self, *_error):
        await self.cut()

    async def mend(self):
        """Let connections through from now on."""
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self):
        """End every connection, and refuse others."""
        self.thaw()
        self._server.close()
        self.drop()
        await self._server.wait_closed()

    def drop(self):
        """End every connection, as a router that was started anew does; others come through."""
        for writer in list(self._open):
            writer.transport.abort()

    def freeze(self):
        """Let nothing through until `thaw`, and end nothing."""
        self._flows.clear()

    def swallow(self, word):
        """Let nothing through behind the next message with this word in it; `swallowed` says that it has passed."""
        self._word = word

    def thaw(self):
        """Let everything through again, what was held up first."""
        self._flows.set()

    async def _pass_on(self, reader, writer):
        far_reader, far_writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        both = {writer, far_writer}
        self._open |= both
        try:
            async with asyncio.TaskGroup() as ways:
                for source, target in ((reader, far_writer), (far_reader, writer)):
                    ways.create_task(self._pipe(source, target, both))
        finally:
            self._open -= both

    async def _pipe(self, source, target, both):
        try:
            while data := await source.read(65_536):
                await self._flows.wait()
                if self._word is not None and self._word in data:
                    self._word = None
                    self.freeze()
                    self.swallowed.set()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            for writer in both:
                writer.transport.abort()
