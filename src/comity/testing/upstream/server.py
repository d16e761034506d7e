"""The upstream itself: where it listens, how it starts, and how it is closed without a trace."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

from comity.errors import OptionsError
from comity.testing.upstream.background import Background
from comity.testing.upstream.connection import Connection, Hub
from comity.testing.upstream.journal import Arrival, Journal, Stats, peak
from comity.testing.upstream.paths import Paths
from comity.testing.upstream.tls import TlsLayer
from comity.testing.upstream.watchers import Watchers

_BACKLOG = 4096
# Turns of the loop until a connection just accepted is known here, or an aborted one has closed its socket.
_TURNS = 4
_PER_SECOND = 1_000_000_000


class Upstream:
    """A mock HTTP server on loopback, for `async with` in a loop or `with` in a thread of its own.

    Args:
        port: where to listen; 0 takes a free one.
        host: an IP address or "localhost"; other than loopback only with `allow_remote`.
        allow_remote: listen where other machines can connect. The server does what any client says: do not, as a rule.
        ssl_context: serve https with it.
        seed: of the random delays.
        log_limit: how many arrivals and how many keys are remembered; the oldest are forgotten first.
        capture: log header fields and the first 64 KiB of bodies too.
        keep_alive: seconds after which an idle connection is closed, announced by Keep-Alive; None for never.

    Raises:
        OptionsError: an option cannot be used.

    Example:
        >>> with Upstream() as up:
        ...     up.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        allow_remote: bool = False,
        ssl_context: ssl.SSLContext | None = None,
        seed: int = 0,
        log_limit: int = 1_000_000,
        capture: bool = False,
        keep_alive: float | None = None,
    ) -> None:
        self._address = _address(host, allow_remote=allow_remote)
        if not 0 <= port <= 65535:
            raise OptionsError("port", port, "a port from 0 to 65535, for example 8471")
        if log_limit < 1:
            raise OptionsError("log_limit", log_limit, "at least 1, for example 1000000")
        if keep_alive is not None and keep_alive <= 0:
            raise OptionsError("keep_alive", keep_alive, "more than 0 seconds, for example 5; or None")
        self._port = port
        self._ssl = ssl_context
        self._journal = Journal(log_limit)
        self._paths = Paths(self._journal, keep=log_limit, seed=seed)
        self._watchers = Watchers()
        self._hub = Hub(self._journal, self._paths, capture=capture, keep_alive=keep_alive, changed=self._watchers.look)
        self._server: asyncio.Server | None = None
        self._background: Background | None = None

    @property
    def port(self) -> int:
        """The port it listens on; the chosen one once it runs."""
        return self._port

    @property
    def url(self) -> str:
        """Its base URL, without a slash at the end."""
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"{'http' if self._ssl is None else 'https'}://{host}:{self._port}"

    @property
    def log(self) -> list[Arrival]:
        """Every logged arrival, oldest first."""
        return self._journal.arrivals()

    def arrivals(self, prefix: str = "") -> list[Arrival]:
        """Return the arrivals whose target starts with `prefix`, oldest first; `/ok/1` finds `/ok/10` too."""
        return self._journal.arrivals(prefix)

    def stats(self) -> Stats:
        """Return the totals and peaks, as `/_stats` shows them."""
        return self._journal.stats()

    def peak(self, prefix: str, per: float) -> int:
        """Return the most logged arrivals, refused ones included, in any window of `per` seconds.

        Args:
            prefix: of the targets counted; "" for all.
            per: length of the half-open window, seconds; taken to the nearest ns.
        """
        return peak((arrival.at for arrival in self._journal.arrivals(prefix)), round(per * _PER_SECOND))

    def clear(self, *, state: bool = True) -> None:
        """Forget the log, the counters and the peaks; with `state` the limits and failures of every key too."""
        self._paths.clear(state=state)

    async def until(self, reached: Callable[[Upstream], bool], within: float = 10.0) -> None:
        """Wait until `reached(upstream)` holds; it is asked after every arrival, every answer and every lost connection.

        Args:
            reached: a quick look at `log`, `stats()` and the like; it is called in the serving thread.
            within: seconds to wait at most.

        Raises:
            TimeoutError: it did not hold in time.

        Example:
            await upstream.until(lambda up: up.stats().total.in_flight == 3)
        """
        await self._watchers.until(lambda: reached(self), within)

    def wait_until(self, reached: Callable[[Upstream], bool], within: float = 10.0) -> None:
        """Wait like `until`, in a thread without a loop.

        Raises:
            TimeoutError: it did not hold in time.
        """
        self._watchers.wait_until(lambda: reached(self), within)

    async def start(self) -> None:
        """Listen, on the running loop.

        Raises:
            OSError: the address cannot be used, for example because the port is taken.
        """
        if self._server is not None:
            raise RuntimeError("this Upstream is running already")
        loop = asyncio.get_running_loop()
        self._hub.closing = False
        self._server = await loop.create_server(self._accept, self._address, self._port, backlog=_BACKLOG)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop at once: hung answers are cut off. It returns when every connection is gone; a second call does nothing."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._hub.closing = True
        for connection in list(self._hub.open):
            connection.abort()
        # Each abort ends in callbacks of the loop, which wait for nothing outside it.
        turns = 0
        while self._hub.open or turns < _TURNS:
            await asyncio.sleep(0)
            turns += 1
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        if self._background is not None:
            raise RuntimeError("this Upstream is running already")
        background = Background(self, "comity-upstream")
        background.start()
        self._background = background
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        background, self._background = self._background, None
        if background is not None:
            background.stop()

    def _accept(self) -> asyncio.BaseProtocol:
        loop = asyncio.get_running_loop()
        return Connection(self._hub, loop) if self._ssl is None else TlsLayer(self._hub, loop, self._ssl)


def _address(host: str, *, allow_remote: bool) -> str:
    if host == "localhost":
        return "127.0.0.1"  # one address: a name may stand for two, and then port 0 for two ports
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise OptionsError("host", host, "an IP address or localhost, for example 127.0.0.1") from None
    if not (address.is_loopback or allow_remote):
        raise OptionsError(
            "host", host, "a loopback address, for example 127.0.0.1", "allow_remote lets other machines connect"
        )
    return host
