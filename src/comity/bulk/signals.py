"""Signals: the first one lets a run end in good order, the second ends it at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Protocol

STOPPED = 130
"""Exit code of a run that was told to stop."""


class Stoppable(Protocol):
    """What signals act on."""

    def drain(self) -> None:
        """End in good order."""

    def abandoned(self) -> str:
        """Return what is said when it is ended at once."""


@contextlib.contextmanager
def stopping(runner: Stoppable) -> Iterator[None]:
    """Let SIGINT and SIGTERM drain `runner` while the block runs; a second one ends the process.

    What is finished by then stands in the output; a request that must not be repeated and is on the wire stays noted
    in the journal, so the next run reports it as of unknown outcome.
    """
    told = False

    def tell() -> None:
        nonlocal told
        if told:
            # At once means without asking anybody: a reader that never reads or a server that never answers.
            _say(runner.abandoned())
            os._exit(STOPPED)
        told = True
        _say("stopping: what is being sent will be finished; once more to stop at once")
        runner.drain()

    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        try:
            loop.add_signal_handler(number, tell)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(tell))
    try:
        yield
    finally:
        for number in numbers:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, before[number])


def _say(text: str) -> None:
    # Who closed standard error does not want to read this.
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201
