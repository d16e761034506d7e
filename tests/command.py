"""The `comity` command as a process of its own: forked off where everything is imported, or started from nothing."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess
from typing import IO, Any

NURSERY = Path(__file__).with_name("nursery.py")
PATIENCE = 60
"""So many seconds a command may take that is waited for."""


def comity(*arguments: object, **options: Any) -> CompletedProcess[str]:
    """Run a command to its end; `input` is the text on its standard input, other options are those of `Command`."""
    text = options.pop("input", None)
    with started(*arguments, **({} if text is None else {"stdin": PIPE}), **options) as process:
        output, errors = process.communicate(text, PATIENCE)
    return CompletedProcess(process.arguments, process.returncode, output, errors)


@contextmanager
def started(*arguments: object, **options: Any) -> Iterator[Command]:
    """Start a command, and kill it if it still runs at the end."""
    process = Command(*arguments, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.close()


@contextmanager
def launched(*arguments: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a command from nothing, for what the interpreter itself does at its start and end."""
    with subprocess.Popen(command(*arguments), text=True, stdout=PIPE, stderr=PIPE, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def command(*arguments: object) -> list[str]:
    """Return the command line that starts a command from nothing."""
    return [sys.executable, "-m", "comity", *map(str, arguments)]


class Command:
    """A command that is forked off, with what tests use of subprocess.Popen, which it is like.

    Args:
        arguments: of `comity`.
        stdin, stdout, stderr: PIPE, DEVNULL or a file.
        cwd, env: where it runs, and the whole of its environment; those of this process by default.
        largest: how many bytes a file that it writes may have.

    Attributes:
        pid: its number.
        returncode: what it ended with, None before that is waited for.
    """

    def __init__(self, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=None, env=None, largest=None):
        self.arguments, self.returncode = [*map(str, arguments)], None
        self.stdin, first = _ends(stdin, "w")
        self.stdout, second = _ends(stdout, "r")
        self.stderr, third = _ends(stderr, "r")
        self._report, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_nursery(), [b"+"], [theirs.fileno(), first, second, third])
        for each in (first, second, third):
            os.close(each)
        told = {"arguments": self.arguments, "cwd": str(cwd or Path.cwd()), "umask": _umask(), "largest": largest}
        self._report.sendall(json.dumps(told | {"env": dict(os.environ if env is None else env)}).encode() + b"\n")
        self._answers = self._report.makefile("rb")
        self.pid = int(self._answers.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Return what it ended with.

        Raises:
            TimeoutError: it did not end within so many seconds.
        """
        if self.returncode is None:
            self._report.settimeout(timeout)
            self.returncode = int(self._answers.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.returncode is None and not select.select([self._report], [], [], 0)[0]:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, text: str | None = None, timeout: float | None = None) -> tuple[str | None, str | None]:
        """Write to its input, close that, and return all of its output when it has ended."""
        with ThreadPoolExecutor(2) as threads:
            output, errors = (stream and threads.submit(stream.read) for stream in (self.stdout, self.stderr))
            try:
                if self.stdin is not None:
                    with suppress(BrokenPipeError), self.stdin:
                        self.stdin.write(text or "")
                self.wait(timeout)
            except BaseException:
                # Its end is the end of what the threads read.
                self.kill()
                raise
        return output and output.result(), errors and errors.result()

    def close(self) -> None:
        """Let go of what leads to it."""
        for each in (self.stdin, self.stdout, self.stderr, self._answers, self._report):
            if each is not None:
                with suppress(BrokenPipeError):
                    each.close()


def _ends(wanted: Any, mode: str) -> tuple[IO[str] | None, int]:
    """Return this side of a stream, and the number of the other one."""
    if wanted == PIPE:
        reading, writing = os.pipe()
        ours, theirs = (writing, reading) if mode == "w" else (reading, writing)
        return os.fdopen(ours, mode, encoding="utf-8"), theirs
    return None, os.open(os.devnull, os.O_RDWR) if wanted == DEVNULL else os.dup(wanted.fileno())


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


@cache
def _nursery() -> socket.socket:
    """Return what leads to this process's nursery, which ends with it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, NURSERY, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=DEVNULL,
            stdout=DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait(PATIENCE)

    atexit.register(end)
    return ours
