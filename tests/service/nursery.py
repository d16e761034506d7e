"""A process with everything imported that becomes, for each line it reads, one `comity` command more.

A command that is started from nothing takes a second of a processor, too much for hundreds of kills; one that is forked here
is at work at once. Lines in, of JSON: {"run": [arguments], "log": file, "largest": bytes}, answered by its pid; {"end": pid, "by": signal},
answered by what the process ended with, a signal as a negative number. Whatever still runs at the end of the input is killed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from contextlib import redirect_stderr, suppress
from importlib import import_module
from io import StringIO

import comity.cli.app

NEEDED = (
    "comity.service.service",
    "comity.store.postgres.store",
    "comity.store.sqlite.store",
    "comity.web.app",
    "comity.web.feed",
    "comity.web.server",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
"""What the commands import when they run."""


def become(arguments, log, largest=None):
    """Be a command, whose output goes to a file, and whose files grow to so many bytes at most, as on a full disk."""
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), number)
    comity.cli.app.app(arguments, prog_name="comity")


def end(pid, by):
    """End a command; return what it ended with, which is something else if it had ended before."""
    os.kill(pid, by)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def warm_up():
    """Import what commands need; one that is refused brings in the rest."""
    for name in NEEDED:
        import_module(name)
    with redirect_stderr(StringIO()), suppress(SystemExit):
        comity.cli.app.app(["serve", "--port", "none"])


def main():
    warm_up()
    living = set()
    for line in sys.stdin:
        told = json.loads(line)
        if "run" in told:
            pid = os.fork()
            if not pid:
                become(told["run"], told["log"], told.get("largest"))
                return
            living.add(pid)
            answer = pid
        else:
            living.discard(told["end"])
            answer = end(told["end"], told["by"])
        print(answer, flush=True)  # noqa: T201 - the answer
    for pid in living:
        end(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
