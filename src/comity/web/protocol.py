"""Protocol: HTTP/1.1 as it is read from a connection; what llhttp lets through and the service does not is refused here.

llhttp is strict about how a message is framed: both Content-Length and Transfer-Encoding, two lengths, a bare LF, a folded line
and a coding that is not chunked at its end are errors. It knows neither how long a head may be nor which fields there have to be.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from comity.web.streams import ABORT

LONGEST_HEAD = 16 << 10
"""Bytes of request line and header fields; likewise of what comes between two pieces of a body, and behind it."""

MOST_AHEAD = 100
"""Requests that may wait for answers to those before them on the same connection."""


class Unreadable(Exception):
    """What came is no request that could be answered."""


class Protocol(HttpToolsProtocol):
    """One connection.

    Besides it lets an answer give up a connection whose peer takes nothing any more: closed, it would be kept until all is
    written.
    """

    # The request that is being answered; `cycle` is the newest that was read.
    _answered: RequestResponseCycle | None = None
    _in_head = True
    _head = 0  # bytes of the head that is being read
    _beside = 0  # bytes that came and were of no body, since the last request was whole
    _again = b""  # a head that is to be read again, without what it offered

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        self._unset_keepalive_if_required()
        self._beside += len(data)
        while data:
            try:
                self.parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as offered:
                data, self._again = self._again + data[offered.args[0] :], b""
            except httptools.HttpParserError as error:
                self._refuse(str(error.__context__ if isinstance(error.__context__, Unreadable) else error))
                return
        if self._beside > LONGEST_HEAD:
            self._refuse(_TOO_LONG)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the answer that nobody reads it."""
        answered = self._answered
        if answered is not None and not answered.response_complete:
            answered.disconnected = True
            answered.message_event.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[ABORT] = self._abort
        self._in_head, self._head = True, 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._count(len(url))
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; what is said behind a body is dropped (RFC 9110 section 6.5.1)."""
        if not self._in_head:
            return
        self._count(len(name) + len(value) + 4)
        name, value = name.lower(), value.strip(b" \t")
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Have the request answered, or let it wait for its turn.

        Raises:
            Unreadable: it is not for this service to read.
        """
        self._in_head = False
        self._check()
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            return
        # Whoever offers another protocol goes on in this one when it is not taken up (RFC 9110 section 7.8), but the parser would
        # read neither the body nor what follows: it would take the body for the next request.
        kept = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        self._again = b"%b %b HTTP/1.1\r\n%b\r\n" % (self.parser.get_method(), self.url, b"".join(kept))

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._beside = max(0, self._beside - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        if self._again:
            return
        self._beside = 0
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _check(self) -> None:
        version, names = self.parser.get_http_version(), [name for name, _ in self.headers]
        if version not in {"1.1", "1.0"}:
            raise Unreadable(f"HTTP/{version} is not spoken here")
        if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):  # RFC 9112 section 3.2
            raise Unreadable("one Host is needed")
        if b"transfer-encoding" in names:
            coding = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
            if version == "1.0" or coding != [b"chunked"]:  # RFC 9112 section 6.1
                raise Unreadable("the only Transfer-Encoding is chunked, and HTTP/1.0 has none")
        if not self.url.startswith(b"/") or b"#" in self.url or self.parser.get_method() == b"CONNECT":
            raise Unreadable("the target has to be a path")
        if len(self.pipeline) >= MOST_AHEAD:
            raise Unreadable("too many requests wait for answers to those before them")

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > LONGEST_HEAD:
            raise Unreadable(_TOO_LONG)

    def _refuse(self, told: str) -> None:
        """End the connection, with an answer where it can be taken for no other's."""
        answered = self._answered
        self.logger.warning("a request that cannot be read: %s", told)
        if answered is None or answered.response_complete:
            self.send_400_response(told)
        elif answered is not self.cycle or not answered.more_body:
            # It was whole and gets its answer; the connection ends with it.
            self.pipeline.clear()
            answered.keep_alive = False
            self.flow.pause_reading()
        elif answered.response_started:
            self.transport.close()
        else:
            self.send_400_response(told)

    def _abort(self) -> None:
        # Reset, as otherwise the system would keep what it has of the answer, and offer it for minutes.
        own = self.transport.get_extra_info("socket").fileno()
        with socket.fromfd(own, socket.AF_INET, socket.SOCK_STREAM) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


_TOO_LONG = f"a head may have {LONGEST_HEAD} bytes"
