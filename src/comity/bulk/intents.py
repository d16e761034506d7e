"""Intents: requests that are about to be sent, put on the disk before their first byte, many with one sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from comity.bulk.files import fdatasync
from comity.bulk.record_file import RecordFile
from comity.errors import StoreError


class Intents:
    """The intents that wait for a sync; those that come while one is under way share the next.

    Args:
        file: where they are written.
        flush: writes everything that waits for the file, these included; what is known of a line is to stand there
            before its intent.
    """

    def __init__(self, file: RecordFile, flush: Callable[[], None]) -> None:
        self._file, self._flush_all = file, flush
        self._lines: list[int] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._committing: asyncio.Task[None] | None = None

    async def put(self, line: int) -> None:
        """Return when a line's intent is on the disk.

        Raises:
            StoreError: it cannot be written.
        """
        self._lines.append(line)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit())
        await waiter

    def drop(self, line: int) -> bool:
        """Take an intent back; return whether that was in time, before it was written."""
        if line not in self._lines:
            return False
        self._lines.remove(line)
        return True

    def flush(self) -> None:
        """Write what waits, without a sync.

        Raises:
            StoreError: it cannot be written.
        """
        if self._lines:
            lines, self._lines = self._lines, []
            self._file.append({"sending": lines})

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiters:
            waiters, self._waiters = self._waiters, []
            failed: StoreError | None = None
            try:
                self._flush_all()
                await loop.run_in_executor(None, fdatasync, self._file.fd)
            except StoreError as error:
                failed = error
            except OSError as error:
                failed = StoreError(f"{self._file.path}: {error.strerror}")
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(failed) if failed else waiter.set_result(None)
        self._committing = None
