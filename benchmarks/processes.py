"""Processes: what listens on a port of this machine and says so on its first line: the service itself, and its limit."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 120


@contextmanager
def service(store: str, *options: str) -> Iterator[int]:
    """Run `comity serve` for the length of a block; give its port.

    Args:
        store: its URL.
        options: of the command line, besides.
    """
    # What is under way at the end is of no interest.
    command = ["-m", "comity", "serve", "--port=0", f"--store={store}", "--drain=1ms", *options]
    with _running(command) as first:
        yield json.loads(first)["port"]


@contextmanager
def bare() -> Iterator[int]:
    """Run an application that answers 201 to every body, on the same server; give its port."""
    with _running(["-m", "benchmarks.processes"]) as first:
        yield int(first)


@contextmanager
def _running(command: Sequence[str]) -> Iterator[str]:
    """Run a Python process; give its first line. It is asked to stop at the end, and killed when it does not."""
    with TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
        )
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if not first:
                log.seek(0)
                raise RuntimeError(f"{' '.join(command)} did not start: {log.read().decode(errors='replace')[-2000:]}")
            yield first
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()


async def _serve() -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from comity.web.server import serving

    async def take(request: Request) -> Response:
        await request.body()
        told = b'{"id":"019f0000-0000-7000-8000-000000000000","status":"pending","nextPollMs":2000}'
        return Response(told, 201, {"Location": "/requests/019f0000-0000-7000-8000-000000000000"}, "application/json")

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    app = Starlette(routes=[Route("/requests", take, methods=["POST"])])
    async with serving(app, host="127.0.0.1", port=0) as served:
        print(served.url.rpartition(":")[2], flush=True)
        await stopped.wait()


if __name__ == "__main__":
    from benchmarks.loops import runner

    with runner() as loop:
        loop.run(_serve())
