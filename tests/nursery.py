"""A process with everything imported that forks off one `comity` command after the other.

A command that is started from nothing takes a second of a processor, under coverage two: too much for hundreds of them. One that is
forked here is at work at once, and takes nothing from here that it would not be given by whoever starts it: what it has open,
its directory, environment, umask and arguments come with the request.

Requests come through the socket whose number is the only argument: the command's three streams and a socket of its own, through
which the rest comes as a line of JSON, and its pid and, when it has ended, its exit code (a signal as a negative number) go back. Whatever
still runs at the end of the requests is killed.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from contextlib import redirect_stderr, suppress
from importlib import import_module
from io import StringIO

import coverage

import comity.cli
import comity.cli.app

NEEDED = (
    "comity.bulk.dry",
    "comity.bulk.job",
    "comity.cli.simulation",
    "comity.client.async_client",
    "comity.client.sync_client",
    "comity.service.client",
    "comity.service.service",
    "comity.store.postgres.store",
    "comity.store.sqlite.store",
    "comity.testing.upstream",
    "comity.web.app",
    "comity.web.feed",
    "comity.web.server",
    "comity.web.stack",
    "rich.progress",
    "rich.table",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
"""What the commands import when they run."""


def main(requests):
    """Fork off what is asked for until the requests end."""
    warm_up()
    bell = rung_by_ends()
    living = {}
    while True:
        ready, _, _ = select.select([requests, bell], [], [])
        if bell in ready:
            bell.recv(4096)
            tell_ends(living)
        if requests in ready:
            asked, numbers, _, _ = socket.recv_fds(requests, 1, 4)
            if not asked:
                break
            report = socket.socket(fileno=numbers[0])
            with report.makefile("rb") as lines:
                told = json.loads(lines.readline())
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                for each in (requests, bell, report, *living.values()):
                    each.close()
                become(told, numbers[1:])
                return
            for number in numbers[1:]:
                os.close(number)
            living[pid] = report
            tell(report, pid)
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    # What it executed stands in the file of its coverage since it was warm.
    os._exit(0)


def become(told, streams):
    """Be a command; `largest` is how many bytes its files may have, as on a full disk."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    os.chdir(told["cwd"])
    os.umask(told["umask"])
    os.environ.clear()
    os.environ.update(told["env"])
    time.tzset()
    if told["largest"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (told["largest"], told["largest"]))
    sys.argv = ["comity", *told["arguments"]]
    try:
        comity.cli.main()
    except SystemExit as ended:
        leave(ended.code or 0)
        raise


def leave(code):
    """End without taking apart all that is imported, which is most of the work of a quick command; return if there is more to do."""
    try:
        for each in (sys.stdout, sys.stderr):
            if each is not None:
                each.flush()
    except OSError:
        return
    if isinstance(code, int) and threading.active_count() == 1:
        atexit._run_exitfuncs()
        os._exit(code)


def warm_up():
    """Import what commands need; one that is refused brings in the rest."""
    for name in NEEDED:
        import_module(name)
    with redirect_stderr(StringIO()), suppress(SystemExit):
        comity.cli.app.app(["serve", "--port", "none"])
    if measuring := coverage.Coverage.current():
        # Else each command would write down again what all of them have in common.
        measuring.save()
    gc.collect()
    gc.freeze()


def rung_by_ends():
    """Return a socket that can be read when a command has ended."""
    bell, rope = socket.socketpair()
    rope.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(rope.detach())
    return bell


def tell_ends(living):
    """Tell those who wait for it what each command ended with."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with living.pop(ended[0]) as report:
                tell(report, os.waitstatus_to_exitcode(ended[1]))


def tell(report, number):
    """Answer; nobody may be left to hear it."""
    with suppress(OSError):
        report.sendall(b"%d\n" % number)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
