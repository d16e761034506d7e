"""Sending: one wire attempt, from the connection to the last byte of the answer."""

from __future__ import annotations

import asyncio

from aiohttp import ClientError
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from comity.client.codec import codings, request_head, response_headers
from comity.client.codings import Damaged, Undecodable
from comity.client.decoding import Body
from comity.client.failure import AttemptProgress, translate
from comity.client.pool import Pool
from comity.client.request import Request
from comity.client.response import Response
from comity.client.stopwatch import Stopwatch
from comity.client.watch import Expired, Watch
from comity.client.wire import Broken, Truncated, Wire
from comity.engine.call import Exchange, Slot
from comity.errors import BadResponse
from comity.policy.outcome import Outcome, asks_again
from comity.policy.timeouts import Timeout

_PIECE = 256 * 1024
_INTERIM = 20
FOREIGN = (OSError, ClientError, HttpProcessingError, Broken, Damaged, Expired, Truncated, Undecodable)


class Sending:
    """One wire attempt.

    Args:
        pool: where connections come from.
        request: what to send.
        limits: how long each phase may take.
        slot: told when the first byte left and when the answer began.
        max_body: most bytes of an answer's body, decoded; None for no cap.
    """

    __slots__ = (
        "_incoming", "_max_body", "_message", "_pool", "_progress", "_request", "_response", "_slot", "_time", "_watch", "_wire",
    )  # fmt: skip

    def __init__(self, pool: Pool, request: Request, limits: Timeout, slot: Slot, max_body: int | None) -> None:
        self._pool = pool
        self._request = request
        self._slot = slot
        self._max_body = max_body
        self._time = Stopwatch()
        self._watch = Watch(pool.loop, limits, self._time.began, slot.time_left())
        self._progress = AttemptProgress()
        self._wire: Wire | None = None
        self._message: RawResponseMessage | None = None
        self._incoming: StreamReader | None = None
        self._response: Response | None = None

    async def run(self) -> Exchange[Response]:
        """Send, read and check the answer; whatever happens, the connection is given back or closed."""
        try:
            wire = self._wire = await self._connection()
            await self._upload(wire)
            message, stream = await self._answer(wire)
            content = await self._download(wire, message, stream)
            return self._answered(wire, message, content)
        except FOREIGN as error:
            return self._failed(error)
        except BaseException:
            self._slot.timings = self._time.stop()
            raise
        finally:
            self._watch.stop()
            if self._wire is not None:
                self._wire.abort()

    async def _connection(self) -> Wire:
        origin, now = self._request.address.origin, self._time.now
        end = self._watch.connecting()
        if end is not None and end[0] <= now:
            raise Expired(end[1], end[2])
        wire = self._pool.take(origin, now)
        if wire is not None:
            self._progress.reused = True
        elif end is None:
            wire = await self._pool.dial(origin, self._time)
        else:
            # The millisecond keeps a loop that rounds down from ending it early.
            limit = asyncio.timeout((end[0] - now) / 1e9 + 0.001)
            try:
                async with limit:
                    wire = await self._pool.dial(origin, self._time)
            except TimeoutError:
                if limit.expired():
                    raise Expired(end[1], end[2]) from None
                raise
        self._progress.connected = True
        return wire

    async def _upload(self, wire: Wire) -> None:
        request, body = self._request, self._request.content
        self._time.enter("upload")
        head = request_head(request)
        wire.begin(head=request.method == "HEAD")
        first = head if not body else head + body[:_PIECE] if len(body) > _PIECE else head + body
        if not wire.write(first):
            raise ConnectionResetError("it was closed at once")
        self._progress.handed = True
        self._slot.sent()
        rest = memoryview(body)[_PIECE:] if body else None
        if rest or wire.writing_paused:
            await self._upload_rest(wire, rest or memoryview(b""))
        else:
            self._progress.whole = True

    async def _upload_rest(self, wire: Wire, rest: memoryview) -> None:
        """Write what is left as fast as the peer takes it; an answer that comes first ends it."""
        self._watch.sending(wire, self._time.now)
        while await wire.flush():
            if not rest:
                self._progress.whole = True
                return
            if not wire.write(rest[:_PIECE]):
                raise ConnectionResetError("it was closed while the request was written")
            self._watch.wrote(wire)
            rest = rest[_PIECE:]
        wire.force_close()

    async def _answer(self, wire: Wire) -> tuple[RawResponseMessage, StreamReader]:
        began = self._time.enter("response")
        for _ in range(_INTERIM):
            self._watch.waiting(wire, began)
            message, stream = await wire.answer()
            if message.code == 101:
                raise Broken("it switches to another protocol, which nobody asked for")
            if message.code < 100:
                raise Broken(f"its status {message.code:03} is below 100")
            if message.code >= 200:
                self._progress.answering = True
                self._slot.answered()
                self._message, self._incoming = message, stream
                if message.code != 200:
                    self._slot.hear(message.code, self._head(message).headers.pairs)
                return message, stream
        raise Broken(f"more than {_INTERIM} interim answers came")

    async def _download(self, wire: Wire, message: RawResponseMessage, stream: StreamReader) -> bytes:
        began = self._time.enter("download", wire.began)
        if stream is EMPTY_PAYLOAD:
            return b""
        headers, cap = message.headers, self._max_body
        announced = headers.get("Content-Length")
        body = Body(codings(message, framed=announced is not None), cap)
        if cap is not None and announced is not None and int(announced) > cap:
            raise Undecodable(f"the body is announced with {int(announced)} bytes, max_body is {cap}")
        if not stream.is_eof():
            self._watch.reading(wire, began)
        while not stream.at_eof():
            body.feed(await stream.readany())
        return body.end()

    def _answered(self, wire: Wire, message: RawResponseMessage, content: bytes) -> Exchange[Response]:
        timings = self._time.stop()
        if self._closing(message):
            wire.force_close()
        self._pool.give_back(wire, message.headers.get("Keep-Alive"), self._time.now)
        self._wire = None
        response = self._head(message)
        response.content, response.timings = content, timings
        return Exchange(outcome=Outcome(status=message.code), value=response, timings=timings)

    def _head(self, message: RawResponseMessage) -> Response:
        """Return an answer whose body is still to come."""
        if self._response is None:
            headers = response_headers(message, expose_cookies=self._request.expose_cookies)
            self._response = Response(message.code, headers, b"", request=self._request)
        return self._response

    def _closing(self, message: RawResponseMessage) -> bool:
        """Return whether the connection is not used again: as asked for, or as it may bring what is no answer."""
        if message.code == 204 and (message.chunked or message.headers.get("Content-Length", "0") != "0"):
            return True  # there is no body (RFC 9112 section 6.3), but a server that announces one sends it
        return self._request.headers.get("connection", "").lower() == "close"

    def _failed(self, error: Exception) -> Exchange[Response]:
        timings, progress = self._time.stop(), self._progress
        progress.phase = self._time.phase
        if self._message is not None and self._incoming is not None:
            announced = self._message.headers.get("Content-Length")
            total = "" if announced is None else f" of {int(announced)}"
            progress.body = f"{self._incoming.total_bytes}{total} bytes"
        if self._pool.dialer.proxy is not None:
            progress.proxy = str(self._pool.dialer.proxy)
        if self._wire is not None and self._wire.began:
            progress.answering = True
        failure, sent, translated = translate(error, progress, self._request)
        head = None if self._message is None else self._head(self._message)
        if head is not None and isinstance(translated, BadResponse):
            translated.response = head.masked()
        decided = head is not None and asks_again(head.status_code)
        return Exchange(
            outcome=Outcome(failure=failure, sent=sent),
            value=head if decided else None,
            error=translated,
            timings=timings,
        )
