"""Dial: open a connection to an origin, straight or through a proxy.

There is no cache of names: every connection asks the resolver again, so that no failure is remembered and one caller's
cancellation touches nobody else's lookup. The environment's proxies are not read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

import aiohappyeyeballs
from aiohappyeyeballs.types import AddrInfoType

from comity.client.address import Origin
from comity.client.guard import Guard, Objected
from comity.client.layer import TlsLayer
from comity.client.proxy import Proxy, ProxyFailed, Tunnel
from comity.client.stopwatch import Stopwatch
from comity.client.tls import TLS, explain, system_context
from comity.client.wire import Wire

Resolve = Callable[[str, int], Awaitable[Sequence[AddrInfoType]]]
"""Finds the addresses of a host name and port, in the form of `socket.getaddrinfo`; raises OSError when it has none."""

_EYEBALLS = 0.25  # RFC 8305 section 5
_HANDSHAKE_LIMIT = 86_400.0  # the limits of an attempt hold here, not the loop's own


class Dialer:
    """Opens connections, all in the same way: what has the same dialer has the same TLS options and the same proxy.

    Args:
        tls: for the origins; None trusts what the system trusts.
        proxy: through which every connection goes; it is spoken to with the system's trust, whatever `tls` says.
        resolve: asked for the addresses of names; None asks the system.
        guard: judges every address that a name has before any of them is tried, and the peer that was reached.
    """

    def __init__(
        self,
        *,
        tls: TLS | None = None,
        proxy: Proxy | None = None,
        resolve: Resolve | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._tls = tls
        self.proxy = proxy
        self._resolve = resolve
        self._guard = guard

    async def dial(self, origin: Origin, time: Stopwatch, wire: Wire) -> None:
        """Open a connection and hand it to `wire`; `time` learns how long each phase took.

        Raises:
            OSError: the name is unknown, nobody listens, TLS failed, the proxy opened no tunnel, or the guard objects.
        """
        if self.proxy is None:
            sock = await self._reach(origin, time)
            await self._hand_over(sock, origin, time, wire)
        else:
            sock = await self._reach(self.proxy.origin, time)
            await self._tunnel(sock, self.proxy, origin, time, wire)

    async def _reach(self, origin: Origin, time: Stopwatch) -> socket.socket:
        infos = await self._lookup(origin, time)
        if not infos:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        self._ask_guard(origin, infos)
        time.enter("connect")
        loop = asyncio.get_running_loop()
        try:
            sock = await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=_EYEBALLS, loop=loop)
        except RuntimeError as error:  # uvloop's word for a socket that cannot be used
            raise OSError(str(error)) from None
        try:
            self._ask_guard(origin, sock)
        except BaseException:
            sock.close()
            raise
        return sock

    def _ask_guard(self, origin: Origin, found: Sequence[AddrInfoType] | socket.socket) -> None:
        """Ask about what was found: addresses, or a peer."""
        if self._guard is None:
            return
        ends = [found.getpeername()] if isinstance(found, socket.socket) else [info[4] for info in found]
        rule = self._guard.objection(origin.host, [str(end[0]) for end in ends])
        if rule is not None:
            raise Objected(rule)

    async def _lookup(self, origin: Origin, time: Stopwatch) -> Sequence[AddrInfoType]:
        host, port = origin.host, origin.port
        if ":" in host:
            return [(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0))]
        if host.replace(".", "").isdigit():
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
        time.enter("dns")
        if self._resolve is not None:
            return await self._resolve(host, port)
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)

    async def _hand_over(self, sock: socket.socket, origin: Origin, time: Stopwatch, wire: Wire) -> None:
        secure = origin.scheme == "https"
        if secure:
            time.enter("tls")
        await asyncio.get_running_loop().create_connection(
            lambda: wire,
            sock=sock,
            ssl=self._context() if secure else None,
            server_hostname=self._server_name(origin) if secure else None,
            ssl_handshake_timeout=_HANDSHAKE_LIMIT if secure else None,
        )

    async def _tunnel(self, sock: socket.socket, proxy: Proxy, origin: Origin, time: Stopwatch, wire: Wire) -> None:
        """Open the tunnel, which counts as connecting, then speak to the origin as if there were none."""
        tunnel = await _hop(sock, proxy)
        try:
            transport = await tunnel.open(proxy.connect(origin))
            if origin.scheme == "https":
                time.enter("tls")
                await TlsLayer(transport, wire, self._context(), self._server_name(origin)).handshake()
            else:
                transport.set_protocol(wire)
                wire.connection_made(transport)
        except BaseException:
            tunnel.abort()
            raise

    def _context(self) -> ssl.SSLContext:
        return system_context() if self._tls is None else self._tls.context

    def _server_name(self, origin: Origin) -> str:
        return (self._tls.server_name if self._tls is not None else None) or origin.host.rstrip(".")


async def _hop(sock: socket.socket, proxy: Proxy) -> Tunnel:
    """Take up the connection to a proxy, with TLS for an https one, checked against the proxy's own name."""
    secure = proxy.origin.scheme == "https"
    try:
        _, tunnel = await asyncio.get_running_loop().create_connection(
            Tunnel,
            sock=sock,
            ssl=system_context() if secure else None,
            server_hostname=proxy.origin.host.rstrip(".") if secure else None,
            ssl_handshake_timeout=_HANDSHAKE_LIMIT if secure else None,
        )
    except ssl.SSLError as error:
        raise ProxyFailed(f"with the proxy, {explain(error)}", error.reason or "") from None
    return tunnel
