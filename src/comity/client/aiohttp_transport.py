"""AiohttpTransport: HTTP/1.1 with aiohttp's parser, one wire attempt per call.

It keeps to the parts of aiohttp that are its protocol and parser and does without its session, so that nothing is sent
twice, rewritten, redirected, remembered or queued behind our back: see `wire` for what remains to be closed there.
"""

from __future__ import annotations

import asyncio
import threading

from comity.client.dial import Dialer, Resolve
from comity.client.guard import Guard
from comity.client.options import UNSET, Unset
from comity.client.pool import Pool
from comity.client.proxy import Proxy
from comity.client.request import Request
from comity.client.response import Response
from comity.client.sending import Sending
from comity.client.streaming import Streaming
from comity.client.tls import TLS
from comity.client.transport import Transport
from comity.engine.call import Exchange, Slot
from comity.engine.fork import restart_in_children
from comity.errors import OptionsError
from comity.policy.timeouts import Timeout
from comity.policy.units import Size, size

MAX_BODY = 100 * 1024 * 1024
"""Most bytes of an answer's body unless said otherwise; whoever expects more streams it."""


class AiohttpTransport:
    """The default transport. It serves any number of event loops, each with connections of its own.

    Args:
        max_body: most bytes of an answer's body, decoded, or text such as "64 MB"; a larger one is a BadResponse. None for
            no cap.
        tls: for the servers that are called; None trusts what the system trusts.
        proxy: URL of an http or https proxy through which every connection is tunnelled; the environment's is never used.
        resolve: finds the addresses of host names; None asks the system.
        guard: judges whom a connection leads to, before it is opened and once more when it stands. What it refuses ends as
            TargetBlocked and is not tried again.

    Raises:
        OptionsError: `max_body` is no size, `tls` no `TLS(...)`, or `proxy` no such URL, or there is a guard too.
    """

    extensions: frozenset[str] = frozenset()
    """It knows none."""

    def __init__(
        self,
        *,
        max_body: Size | None = MAX_BODY,
        tls: TLS | None = None,
        proxy: str | None = None,
        resolve: Resolve | None = None,
        guard: Guard | None = None,
    ) -> None:
        if tls is not None and not isinstance(tls, TLS):
            raise OptionsError("tls", type(tls).__name__, "a TLS(...)")
        if guard is not None and proxy is not None:
            reason = "a proxy looks names up itself, where the guard sees no address"
            raise OptionsError("proxy", None, reason=reason, secret=True)
        self._max_body = size(max_body, "max_body")
        self._dialer = Dialer(tls=tls, proxy=Proxy.of(proxy), resolve=resolve, guard=guard)
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self._lock = threading.Lock()
        restart_in_children(self)

    def restart(self) -> None:
        """Begin anew, in a child process: its parent's connections are not its own."""
        self._lock = threading.Lock()
        # Kept, so that nothing closes them here with a word to their servers.
        self._parents = self._pools
        self._pools = {}

    async def send(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response]:
        """Make one wire attempt and read its whole answer; see `Transport.send`."""
        return await Sending(self._pool_here(), request, limits, slot, self._max_body).run()

    async def open(self, request: Request, limits: Timeout, slot: Slot) -> Exchange[Response] | Streaming:
        """Make one wire attempt up to the answer's head; see `Opens.open`. `max_body` does not hold for such a body."""
        return await Streaming(self._pool_here(), request, limits, slot, self._max_body).open()

    async def aclose(self) -> None:
        """Close the connections of this event loop, and forget those of loops that are closed."""
        with self._lock:
            pool = self._pools.get(asyncio.get_running_loop())
            self._pools = {other: kept for other, kept in self._open_pools() if kept is not pool}
        if pool is not None:
            await pool.aclose()

    def _pool_here(self) -> Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        return self._pool(loop) if pool is None else pool  # an empty pool is false

    def _pool(self, loop: asyncio.AbstractEventLoop) -> Pool:
        pool = Pool(loop, self._dialer)
        with self._lock:
            self._pools = dict([*self._open_pools(), (loop, pool)])
        return pool

    def _open_pools(self) -> list[tuple[asyncio.AbstractEventLoop, Pool]]:
        """Return what is not of a closed loop. Other threads read `_pools` without the lock, so it is never changed."""
        return [(loop, pool) for loop, pool in self._pools.items() if not loop.is_closed()]


def chosen(given: Transport | None, tls: TLS | None, proxy: str | None, max_body: Size | Unset | None) -> Transport:
    """Return the transport that a client was given, or the default one with the client's options.

    Raises:
        OptionsError: a transport is given with options that belong to the default one, or they cannot be used.
    """
    if given is None:
        return AiohttpTransport(max_body=MAX_BODY if max_body is UNSET else max_body, tls=tls, proxy=proxy)
    both = "it belongs to the transport, and transport= is given too"
    for name, value in (("tls", tls), ("proxy", proxy)):
        if value is not None:
            raise OptionsError(name, None, reason=both, secret=True)
    if max_body is not UNSET:
        raise OptionsError("max_body", max_body, hint="give it to the transport, if that has such a bound", reason=both)
    return given
