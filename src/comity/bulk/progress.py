"""Progress: how a run is doing, on standard error: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Literal, TextIO

from comity.bulk.clock_text import clock_text
from comity.bulk.tally import Tally

if TYPE_CHECKING:
    from rich.console import Console

Kind = Literal["auto", "plain", "off"]

_LIVE_EVERY = 0.1
_PLAIN_EVERY = 5.0
_SETTLED = 2_000_000_000
"""Time after which a speed can be told, ns."""


class Progress:
    """Shows a tally while a run goes on.

    Args:
        tally: what to show.
        limit: the rates that hold, in words, "" without one.
        least: rows -> the seconds that they take at least under the limits.
        why: says what is waited for, "" for nothing in particular.
        learned: says what limits the answers taught.
        kind: "auto" is live on a terminal and plain elsewhere.
        stream: where to show it.
        every: seconds between two looks; by default 0.1 live and 5 plain.
    """

    def __init__(
        self,
        tally: Tally,
        *,
        limit: str = "",
        least: Callable[[int], float] | None = None,
        why: Callable[[], str] | None = None,
        learned: Callable[[], list[str]] | None = None,
        kind: Kind = "auto",
        stream: TextIO | None = None,
        every: float | None = None,
    ) -> None:
        self.tally, self.limit, self.least, self.why, self.learned = tally, limit, least, why, learned
        self._began: int | None = None
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
        """Return the present state in one line.

        Speed and remaining time are told when they can be: the first moments, in which a whole window is used up, say
        nothing about the rest.
        """
        tally = self.tally
        self._began = now if self._began is None else self._began
        done = tally.before + tally.finished
        rate = tally.rate(now)
        settled = now - self._began >= _SETTLED
        parts = [f"{done:,}/{tally.total:,}" if tally.total is not None else f"{done:,} done"]
        if settled:
            parts.append(f"{rate:.1f}/s" + (f" of {self.limit}" if self.limit else ""))
        elif self.limit:
            parts.append(f"at most {self.limit}")
        reason = self.why() if self.why else ""
        if tally.in_flight or not reason:
            parts.append(f"{tally.in_flight} in flight")
        parts += self.learned() if self.learned else []
        parts += [reason] if reason else []
        if tally.failed:
            parts.append(f"{tally.failed:,} failed")
        parts.append(f"{tally.refused:,} x 429")
        left = tally.total - done if tally.total is not None else 0
        if left > 0:
            least = self.least(left) if self.least else 0.0
            seconds = max(least, left / rate if settled and rate > 0 else 0.0)
            parts += [f"ETA {clock_text(seconds)}"] if seconds >= 1 else []
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
