"""Sink: brings finished results to the output, in batches and in order when asked.

There is no timer: what is finished is written with one call to the system when the loop comes round, or before the next
request leaves, whichever comes first. So after a kill no more rows are sent again than were on the wire. A pipe whose
reader is slow is written from a thread, and workers wait while much is waiting there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from comity.bulk.journal import Journal
from comity.bulk.output import Output
from comity.bulk.results import Result, encode
from comity.bulk.stream import Stream
from comity.errors import StoreError

_MOST_WAITING_BYTES = 1024 * 1024


class Sink:
    """The way of results to the output.

    Args:
        output: where they go.
        journal: what is flushed before, and told after; None when there is none.
        ordered: whether results leave in the order in which `expect` named their lines.

    Attributes:
        failed: called with the error when something cannot be written; nothing more is written then.
    """

    def __init__(self, output: Output, journal: Journal | None, *, ordered: bool = False) -> None:
        self.output, self.journal, self.ordered = output, journal, ordered
        self.failed: Callable[[StoreError], None] = _nobody
        self.broken = False
        self._expected: deque[int] = deque()
        self._early: dict[int, bytes | None] = {}
        self._waiting: list[bytes] = []
        self._lines: list[int] = []
        self._bytes = 0
        self._scheduled = False
        self._writer: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()

    @property
    def ahead(self) -> int:
        """How many lines are expected and not written, in order."""
        return len(self._expected)

    def expect(self, line: int) -> None:
        """Name the next line of an ordered output; it may be one whose result the journal already keeps."""
        if self.ordered:
            self._expected.append(line)
            if self.journal is not None and line in self.journal.spilled:
                self._early[line] = None
                self._advance()

    def put(self, result: Result) -> None:
        """Take a result."""
        if self.broken:
            return
        data = encode(result)
        if not self.ordered:
            self._queue(result.line, data)
            return
        if self._expected and self._expected[0] == result.line:
            self._early[result.line] = data
        elif self.journal is not None:
            try:
                self.journal.spill(result.line, data)
            except StoreError as error:
                self._break(error)
                return
            self._early[result.line] = None
        else:
            self._early[result.line] = data
        self._advance()

    @property
    def has_room(self) -> bool:
        """Whether not too much is waiting for a slow reader."""
        return self._room.is_set()

    async def room(self) -> None:
        """Wait until not too much is waiting for a slow reader."""
        await self._room.wait()

    async def finish(self) -> None:
        """Write everything; results behind a gap of an ordered output stay in the journal, or go out without it."""
        if self.journal is None:
            for line in [line for line in self._expected if line in self._early]:
                self._queue(line, self._early.pop(line) or b"")
        while self._writer is not None:
            await self._writer
        self.flush()

    def settle(self) -> bool:
        """Write what waits, now; return whether all is well. A stream's writer does it when the reader lets it."""
        if self._waiting:
            self.flush()
        return not self.broken

    def flush(self) -> None:
        """Write what waits, now."""
        self._scheduled = False
        if self.broken or self._writer is not None or not self._waiting:
            return
        results, lines = self._taken()
        try:
            if self.journal is not None:
                self.journal.flush()
            self.output.write(results)
        except StoreError as error:
            self._break(error)
        else:
            self._note(lines)

    def _advance(self) -> None:
        while self._expected and self._expected[0] in self._early:
            line = self._expected.popleft()
            data = self._early.pop(line)
            if data is None:
                assert self.journal is not None
                data = self.journal.unspill(line)
            self._queue(line, data)

    def _queue(self, line: int, data: bytes) -> None:
        self._waiting.append(data)
        self._lines.append(line)
        self._bytes += len(data)
        if isinstance(self.output, Stream):
            if self._bytes > _MOST_WAITING_BYTES:
                self._room.clear()
            if self._writer is None:
                self._writer = asyncio.create_task(self._write_stream(self.output))
        elif not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    async def _write_stream(self, stream: Stream) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting and not self.broken:
                results, lines = self._taken()
                self._room.set()
                await loop.run_in_executor(None, stream.write, results)
                self._note(lines)
        except StoreError as error:
            self._break(error)
        finally:
            self._writer = None

    def _taken(self) -> tuple[list[bytes], list[int]]:
        results, self._waiting = self._waiting, []
        lines, self._lines = self._lines, []
        self._bytes = 0
        return results, lines

    def _note(self, lines: list[int]) -> None:
        if self.journal is not None:
            for line in lines:
                self.journal.done.add(line)

    def _break(self, error: StoreError) -> None:
        self.broken = True
        self._room.set()
        self.failed(error)


def _nobody(_error: StoreError) -> None:
    """Stand in until somebody wants to know; `broken` tells as well."""
