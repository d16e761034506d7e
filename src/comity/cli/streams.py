"""Standard streams that are closed, full or gone: no reason for a command to fail in another way than it says."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_MODES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed() -> None:
    """Open the standard streams that the command was started without.

    Else the next file that is opened would take their numbers, and messages would go there. What is written to a
    standard output that was closed fails, as results must not be lost without a word.
    """
    for number, (name, mode) in enumerate(_MODES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(number, mode, closefd=False))


def tell(text: str) -> None:
    """Say something on standard error; who closed it, or filled its disk, does not want to read it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - it stays open to the very end
