"""Fleet: the processes of a service, which start quickly and are killed at any moment."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import ExitStack, contextmanager

from tests.command import PATIENCE, started


class Member:
    """A process that runs a command.

    Args:
        fleet: which it belongs to.
        process: the command.
    """

    def __init__(self, fleet, process):
        self.pid = process.pid
        self._fleet, self._process = fleet, process

    def kill(self):
        """Kill it, which must not have ended before; return when it is gone."""
        ended = self.end(signal.SIGKILL)
        assert ended == -signal.SIGKILL, (self._process.arguments, ended, self._fleet.told)

    def freeze(self):
        """Have it stand still until `thaw`."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    async def stop(self):
        """Ask it to end, and see that it does so well."""
        ended = await asyncio.to_thread(self.end, signal.SIGTERM)
        assert ended == 0, (self._process.arguments, ended, self._fleet.told)

    def end(self, by):
        """End it by a signal; return what it ended with, which is something else if it had ended before."""
        self._process.send_signal(by)
        return self._process.wait(PATIENCE)


class Fleet:
    """Processes on one store.

    Args:
        opened: what ends them.
        directory: where they write what they have to say.
        store: the store's URL.
        options: of every command, for `serve` and `worker`.
    """

    def __init__(self, opened, directory, store, options):
        self._opened, self._log = opened, directory / "log"
        self.store, self._options = store, options
        # Bound for good, though nobody listens at it: nobody else is given the port between one life and the next.
        held = opened.enter_context(socket.socket())
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self.port = held.getsockname()[1]
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
        with self._log.open("ab") as log:
            command = started(*arguments, "--store", self.store, stdout=log, stderr=log, **limits)
            return Member(self, self._opened.enter_context(command))


@contextmanager
def fleet(directory, store, *options):
    """Have a fleet; whoever of it still runs at the end is killed."""
    with ExitStack() as opened:
        yield Fleet(opened, directory, store, options)
