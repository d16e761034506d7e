"""Fleet: the processes of a service, which start quickly and are killed at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

NURSERY = Path(__file__).with_name("nursery.py")


class Member:
    """A process that runs a command.

    Args:
        fleet: which it belongs to.
        pid: its number.
        arguments: of its command.
    """

    def __init__(self, fleet, pid, arguments):
        self.pid, self.arguments = pid, arguments
        self._fleet = fleet

    def kill(self):
        """Kill it, which must not have ended before; return when it is gone."""
        ended = self._fleet.ask(end=self.pid, by=signal.SIGKILL)
        assert ended == -signal.SIGKILL, (self.arguments, ended, self._fleet.told)

    def freeze(self):
        """Have it stand still until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self):
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    async def stop(self):
        """Ask it to end, and see that it does so well."""
        ended = await asyncio.to_thread(self._fleet.ask, end=self.pid, by=signal.SIGTERM)
        assert ended == 0, (self.arguments, ended, self._fleet.told)


class Fleet:
    """Processes on one store.

    Args:
        process: the nursery.
        directory: where they write what they have to say.
        store: the store's URL.
        options: of every command, for `serve` and `worker`.
    """

    def __init__(self, process, directory, store, options):
        self._process, self._log = process, directory / "log"
        self.store, self._options = store, options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def told(self):
        """What all of them wrote."""
        return self._log.read_text() if self._log.exists() else ""

    def serve(self, **limits):
        """Start an API with its worker, always at the same URL."""
        return self.run("serve", "--port", self.port, *self._options, **limits)

    def worker(self):
        """Start a worker alone."""
        return self.run("worker", *self._options)

    def run(self, *arguments, **limits):
        """Start any command on the store; `largest` is how many bytes a file may have."""
        told = [*map(str, arguments), "--store", self.store]
        return Member(self, self.ask(run=told, log=str(self._log), **limits), told)

    def ask(self, **what):
        """Have the nursery do something; return its answer."""
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def fleet(directory, store, *options):
    """Have a fleet; whoever of it still runs at the end is killed."""
    command = [sys.executable, NURSERY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Fleet(process, directory, store, options)
        # Its input ends with this block, and it with that.
