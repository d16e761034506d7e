"""Progress: how a run is doing, on standard error: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal, TextIO

from comity.bulk.tally import Tally

if TYPE_CHECKING:
    from rich.console import Console

Kind = Literal["auto", "plain", "off"]

_LIVE_EVERY = 0.1
_PLAIN_EVERY = 5.0


class Progress:
    """Shows a tally while a run goes on.

    Args:
        tally: what to show.
        limit: the rates that hold, in words, "" without one.
        kind: "auto" is live on a terminal and plain elsewhere.
        stream: where to show it.
        every: seconds between two looks; by default 0.1 live and 5 plain.
    """

    def __init__(
        self,
        tally: Tally,
        *,
        limit: str = "",
        kind: Kind = "auto",
        stream: TextIO | None = None,
        every: float | None = None,
    ) -> None:
        self.tally, self.limit = tally, limit
        self.stream = sys.stderr if stream is None else stream
        self.kind = kind
        self.live = kind == "auto" and self.stream.isatty()
        self.every = every if every is not None else (_LIVE_EVERY if self.live else _PLAIN_EVERY)

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show progress for as long as the block runs."""
        if self.kind == "off":
            yield
            return
        self.tally.rate(time.monotonic_ns())
        task = asyncio.create_task(self._live() if self.live else self._plain())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def line(self, now: int) -> str:
        """Return the present state in one line."""
        tally = self.tally
        done = tally.before + tally.finished
        rate = tally.rate(now)
        parts = [f"{done:,}/{tally.total:,}" if tally.total is not None else f"{done:,} done"]
        parts.append(f"{rate:.1f}/s" + (f" of {self.limit}" if self.limit else ""))
        parts.append(f"{tally.in_flight} in flight")
        if tally.failed:
            parts.append(f"{tally.failed:,} failed")
        parts.append(f"{tally.refused:,} x 429")
        if tally.total is not None and rate > 0 and tally.total > done:
            parts.append(f"ETA {clock((tally.total - done) / rate)}")
        return "  ".join(parts)

    async def _plain(self) -> None:
        while True:
            await asyncio.sleep(self.every)
            self._say(self.line(time.monotonic_ns()))

    async def _live(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self.stream)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(self._drawn(console), refresh=True)
                await asyncio.sleep(self.every)

    def _drawn(self, console: Console) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        tally, text = self.tally, self.line(time.monotonic_ns())
        grid = Table.grid(padding=(0, 1))
        done = tally.before + tally.finished
        width = min(40, console.width - len(text) - 2)
        if tally.total and width > 4:
            grid.add_row(ProgressBar(total=tally.total, completed=done, width=width), text)
        else:
            grid.add_row(text)
        return grid

    def _say(self, text: str) -> None:
        # Who closed standard error does not want to read this; the run matters more.
        with contextlib.suppress(OSError):
            print(text, file=self.stream, flush=True)


def clock(seconds: float) -> str:
    """Return a length of time for people: "45 s", "3:05", "2:00:07"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
