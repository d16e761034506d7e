"""TLS between a socket and a connection, driven by callbacks alone.

The loops' own upgrade to TLS differs between event loops, and a server cannot reach a connection that is in the middle of a
handshake; this layer is the same on each, needs no task, and can be aborted at any moment.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

from comity.testing.upstream.connection import Connection, Hub

_READ = 256 * 1024


class TlsLayer(asyncio.Protocol):
    """The socket's side: decrypts for a connection, which it gets once the handshake is done.

    Args:
        hub: what the connections share.
        loop: the loop it lives on.
        context: the server's certificates.
    """

    def __init__(self, hub: Hub, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext) -> None:
        self._hub = hub
        self._inner = Connection(hub, loop)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw: asyncio.Transport | None = None
        self._shaken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client to begin its handshake."""
        self._raw = cast("asyncio.Transport", transport)  # what a loop passes here need not inherit from it
        self._hub.open.add(self)
        if self._hub.closing:
            self._raw.abort()

    def data_received(self, data: bytes) -> None:
        """Go on with the handshake, or decrypt."""
        self._incoming.write(data)
        try:
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
                self.flush()
                self._inner.connection_made(_TlsTransport(self, self._raw))
            while self._raw is not None and not self._raw.is_closing():
                plain = self._tls.read(_READ)
                if not plain:
                    break
                self._inner.data_received(plain)
        except ssl.SSLWantReadError:
            self.flush()
        except ssl.SSLError:
            # The client said goodbye, refuses the certificate or speaks no TLS: it gets the alert that is due, if any.
            self.flush()
            self.close()

    def pause_writing(self) -> None:
        """Tell the connection."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell the connection."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection, if there was one yet."""
        self._raw = None
        self._hub.open.discard(self)
        if self._shaken:
            self._inner.connection_lost(exc)

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        self._tls.write(data)
        self.flush()

    def flush(self) -> None:
        """Send what the TLS engine has ready."""
        if self._raw is not None and self._outgoing.pending:
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Close when everything is sent."""
        if self._raw is not None:
            self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        if self._raw is not None:
            self._raw.abort()


class _TlsTransport(asyncio.Transport):
    """The connection's side: what it needs of a transport."""

    def __init__(self, layer: TlsLayer, raw: asyncio.Transport | None) -> None:
        super().__init__()
        assert raw is not None
        self._layer = layer
        self._raw = raw

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if data:
            self._layer.write(bytes(data))

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def close(self) -> None:
        self._layer.close()

    def abort(self) -> None:
        self._layer.abort()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)
