"""Counting the lines of inputs, so that progress can say how much there is."""

from __future__ import annotations

import asyncio
import time

from comity.bulk.reader import Reader
from comity.bulk.tally import Tally

_BLOCK = 1024 * 1024
_LONGEST_TURN_SECONDS = 0.002
_GZIP = b"\x1f\x8b"


async def count(reader: Reader, tally: Tally) -> None:
    """Count the rows of a reader's inputs while it reads, and keep the tally's total.

    Plain files are counted ahead, a little at a time; gzip and pipes are not: their total is known at their end.
    """
    total = 0
    for source in reader.sources:
        lines = await _lines(source.name) if source.rereadable else None
        if lines is None:
            return
        total += lines
    tally.lines = total


async def _lines(name: str) -> int | None:
    """Return the number of lines of a file, None for gzip."""
    lines, last, until = 0, b"\n", time.monotonic() + _LONGEST_TURN_SECONDS
    with open(name, "rb", buffering=0) as file:  # noqa: ASYNC230, PTH123 - a regular file answers at once
        while block := file.read(_BLOCK):
            if not lines and block.startswith(_GZIP):
                return None
            lines += block.count(b"\n")
            last = block[-1:]
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + _LONGEST_TURN_SECONDS
    return lines + (last != b"\n")
