"""Streaming: one wire attempt whose answer is handed out while its body is still on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from aiohttp.streams import StreamReader

from comity.client.codec import codings
from comity.client.decoding import Flow
from comity.client.response import Response
from comity.client.sending import FOREIGN, Sending
from comity.engine.call import Exchange
from comity.policy.outcome import Outcome


class Streaming(Sending):
    """One wire attempt whose body is read piece by piece; `Sending` has the arguments.

    The body has no cap, and no limit runs while nobody reads: `idle` counts within a read, and the deadline and the limit
    of the attempt are looked at when one begins.
    """

    __slots__ = ("_flow", "_pieces", "_stream", "exchange")

    exchange: Exchange[Response] | None

    async def open(self) -> Exchange[Response] | Self:
        """Send, and read the head; the connection is held if there is one, else it is closed."""
        self.exchange = None
        self._pieces: Iterator[bytes] = iter(())
        opened = False
        try:
            wire = self._wire = await self._connection()
            await self._upload(wire)
            message, self._stream = await self._answer(wire)
            self._flow = Flow(codings(message, framed="Content-Length" in message.headers))
            self._time.enter("download", wire.began)
            opened = True
        except FOREIGN as error:
            return self._failed(error)
        except BaseException:
            self._slot.timings = self._time.stop()
            raise
        finally:
            self._watch.stop()
            if not opened:
                self._close()
        return self

    @property
    def head(self) -> Response:
        """The answer without its body."""
        assert self._message is not None
        return self._head(self._message)

    async def chunk(self) -> bytes:
        """Return the next bytes, decoded and at least one; b"" when the attempt is over."""
        if self.exchange is not None:
            return b""
        wire, message = self._wire, self._message
        assert wire is not None
        assert message is not None
        if wire.inherited:
            raise RuntimeError("this stream was opened before the fork: the parent process reads it")
        try:
            data = await self._next()
            if not data:
                self.exchange = self._answered(wire, message, b"")
        except FOREIGN as error:
            return self._break_off(error)
        finally:
            self._watch.stop()
        return data

    async def read(self) -> Exchange[Response]:
        """Read the whole body into the answer, up to `max_body`, and return what the attempt came to."""
        wire, message = self._wire, self._message
        assert wire is not None
        assert message is not None
        try:
            content = await self._download(wire, message, self._stream)
            self.exchange = self._answered(wire, message, content)
        except FOREIGN as error:
            self._break_off(error)
        except BaseException:
            self._slot.timings = self._time.stop()
            raise
        finally:
            self._watch.stop()
            self._close()
        assert self.exchange is not None
        return self.exchange

    async def abort(self) -> Exchange[Response]:
        """Close the connection, unless the attempt is over; return what it came to."""
        if self.exchange is None:
            self._close()
            head, timings = self.head, self._time.stop()
            self.exchange = Exchange(outcome=Outcome(status=head.status_code), value=head, timings=timings)
        return self.exchange

    def drop(self) -> None:
        """Close the connection in its loop, unless the attempt is over."""
        if self.exchange is None:
            self._slot.timings = self._time.stop()
            with suppress(RuntimeError):  # the loop is closed, and its connections with it
                self._pool.loop.call_soon_threadsafe(self._close)

    async def _next(self) -> bytes:
        stream: StreamReader = self._stream
        if self._flow.coded:
            await self._breathe()
        while True:
            for piece in self._pieces:
                if piece:
                    return piece
                await self._breathe()
            now = self._time.enter("download")
            self._watch.check(now)
            if stream.at_eof():
                self._flow.end()
                return b""
            wire = self._wire
            assert wire is not None
            if not stream.is_eof():
                self._watch.reading(wire, now)
            self._pieces = self._flow.pieces(await wire.piece(stream))

    async def _breathe(self) -> None:
        """Let others run: a few bytes may decode to any number of pieces, between which nothing is waited for."""
        await asyncio.sleep(0)
        self._watch.check(self._time.enter("download"))

    def _break_off(self, error: Exception) -> bytes:
        self.exchange = self._failed(error)
        self._close()
        return b""

    def _close(self) -> None:
        if self._wire is not None:
            self._wire.abort()
            self._wire = None
