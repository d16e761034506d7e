"""Layer: TLS on top of a connection that is open already, which is what a tunnel is.

The loops' own upgrade (`start_tls`) is not used: on some versions a handshake that fails inside another TLS connection, that to
an https proxy, ends in a TypeError, and with it bytes may come before the protocol knows its transport. This layer needs no
task, is the same on every loop and can be aborted at any moment.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

_READ = 256 * 1024


class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """The protocol of the outer connection and the transport of the inner one.

    Args:
        outer: the open connection.
        inner: gets its `connection_made` when the handshake is done.
        context: what to trust.
        server_name: to ask for and to verify.
    """

    def __init__(
        self, outer: asyncio.Transport, inner: asyncio.Protocol, context: ssl.SSLContext, server_name: str
    ) -> None:
        super().__init__()
        self._outer = outer
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._context = context
        self._waiter: asyncio.Future[None] | None = None
        self._shaken = False
        self._stopped = False  # the inner protocol wants no data now
        self._done = False  # it gets none any more
        self._failure: Exception | None = None
        self._unsent = bytearray()

    async def handshake(self) -> None:
        """Take the outer connection over and shake hands.

        Raises:
            ssl.SSLError: it failed.
            ConnectionError: the connection ended first.
        """
        self._outer.set_protocol(self)
        self._waiter = asyncio.get_running_loop().create_future()
        self._shake()
        await self._waiter

    # The protocol's side.

    def data_received(self, data: bytes) -> None:
        """Go on with the handshake, or decrypt."""
        self._incoming.write(data)
        if self._shaken:
            self._read()
        else:
            self._shake()

    def pause_writing(self) -> None:
        """Tell the inner protocol."""
        if self._shaken:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell the inner protocol."""
        if self._shaken:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits. An end without TLS's own goodbye is taken for one, as the loops do."""
        if self._shaken:
            self._stopped = False
            self._read()  # what it did not want yet; the loops deliver that too
            self._inner.connection_lost(self._failure or exc)
        else:
            self._settle(exc or ConnectionResetError("it was closed within the handshake"))

    # The transport's side.

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt and send."""
        self._unsent += data
        self._write()

    def close(self) -> None:
        """Say goodbye and close when everything is sent."""
        self._done = True
        with suppress(ssl.SSLError):  # the peer's own goodbye is not waited for
            self._tls.unwrap()
        self._flush()
        self._outer.close()

    def abort(self) -> None:
        """Close at once."""
        self._done = True
        self._outer.abort()

    def is_closing(self) -> bool:
        """Tell whether it is closed or about to be."""
        return self._outer.is_closing()

    def pause_reading(self) -> None:
        """Deliver nothing for now."""
        self._stopped = True
        self._outer.pause_reading()

    def resume_reading(self) -> None:
        """Deliver again, first what is here already: what comes after it (an end, say) has to wait."""
        self._stopped = False
        asyncio.get_running_loop().call_soon(self._go_on)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set them for the outer connection."""
        self._outer.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return how much is not yet sent."""
        return self._outer.get_write_buffer_size() + len(self._unsent)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of this TLS, or of the outer connection."""
        own = {"sslcontext": self._context, "ssl_object": self._tls}
        return own[name] if name in own else self._outer.get_extra_info(name, default)

    def _go_on(self) -> None:
        self._read()
        if not self._stopped:
            self._outer.resume_reading()

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()  # the alert
            self._settle(error)
            self._outer.close()
            return
        self._flush()
        self._shaken = True
        self._inner.connection_made(self)
        self._settle(None)
        self._read()

    def _settle(self, error: Exception | None) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    def _read(self) -> None:
        """Deliver what can be decrypted."""
        try:
            while not self._stopped and not self._done:
                data = self._tls.read(_READ)
                if not data:  # the peer's goodbye
                    self.close()
                    return
                self._inner.data_received(data)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._write()

    def _write(self) -> None:
        """Encrypt what waits; the rare renegotiation makes it wait for the peer."""
        try:
            while self._unsent:
                del self._unsent[: self._tls.write(self._unsent)]
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._outer.is_closing():
            self._outer.write(self._outgoing.read())

    def _fail(self, error: Exception) -> None:
        self._failure, self._done = error, True
        self._flush()
        self._outer.close()
