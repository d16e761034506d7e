"""`comity upstream`: run the mock server until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import json
import signal
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from comity.cli.streams import tell
from comity.errors import OptionsError

if TYPE_CHECKING:
    from comity.testing.upstream import Upstream


def upstream(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 8471,
    host: Annotated[
        str, typer.Option(help="A loopback address, or with --allow-remote any of this machine.")
    ] = "127.0.0.1",
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let other machines connect.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random delays.")] = 0,
    log_limit: Annotated[int, typer.Option(min=1, help="How many arrivals are remembered.")] = 1_000_000,
    capture: Annotated[bool, typer.Option("--capture", help="Log header fields and bodies too.")] = False,
    keep_alive: Annotated[
        float | None, typer.Option(help="Seconds after which an idle connection is closed; never by default.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Serve https with this certificate chain (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
) -> None:
    """Run a mock server with limits, faults and a log of arrivals; GET / lists its paths.

    The first line of output is a JSON object with url and port. Ctrl-C or SIGTERM stops it.
    """
    from comity.cli import loops
    from comity.testing.upstream import Upstream

    try:
        server = Upstream(
            port=port,
            host=host,
            allow_remote=allow_remote,
            ssl_context=_tls(tls_cert, tls_key),
            seed=seed,
            log_limit=log_limit,
            capture=capture,
            keep_alive=keep_alive,
        )
    except OptionsError as error:
        loops.refuse("upstream", error)
    try:
        loops.run(_serve(server))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = f"port {port} is in use; --port 0 takes a free one" if taken else f"cannot listen on {host}: {error}"
        tell(f"comity upstream: {reason}")
        raise typer.Exit(1) from None


async def _serve(server: Upstream) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    if sys.platform != "win32":
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
    async with server:
        # Flushed: who started this process reads the line through a pipe before sending anything.
        print(json.dumps({"url": server.url, "port": server.port}), flush=True)
        await stopped.wait()


def _tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if cert is None and key is None:
        return None
    if cert is None:
        raise OptionsError("--tls-cert", None, "the certificate chain that belongs to --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one
        raise OptionsError("--tls-cert", str(cert), f"a PEM file with a certificate and its key ({error})") from None
    return context
