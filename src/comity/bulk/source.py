"""Source: one input as unpacked blocks of bytes: a file, a pipe or standard input, gzip or not."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import zlib
from pathlib import Path

from comity.client.gunzip import Gunzip
from comity.errors import OptionsError

STDIN = "-"
_BLOCK = 64 * 1024
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""A pipe that nobody writes to is opened all the same; its data is awaited."""

_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Source:
    """One input.

    A regular file is read directly: the kernel answers at once. A pipe or terminal is awaited, so that requests go on
    while the producer is slow.

    Args:
        name: a path, or "-" for standard input.

    Attributes:
        rereadable: whether it can be read a second time.
        consumed: bytes of it read so far, before unpacking.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._fd: int | None = None
        self._gunzip: Gunzip | None = None
        self._ended = False
        self.consumed = 0
        try:
            found = os.fstat(sys.stdin.fileno()) if name == STDIN else Path(name).stat()
        except (OSError, ValueError) as error:
            raise _unreadable(name, error) from None
        if stat.S_ISDIR(found.st_mode):
            raise OptionsError("INPUT", name, "a file, or - for standard input", "it is a directory")
        self.rereadable = stat.S_ISREG(found.st_mode) and name != STDIN
        self._direct = stat.S_ISREG(found.st_mode)
        if self.rereadable and not os.access(name, os.R_OK):
            raise OptionsError("INPUT", name, "a file that can be read", "permission denied")

    @property
    def suffix(self) -> str:
        """The name's suffix in lower case, `.gz` left aside."""
        path = Path(self.name)
        return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()

    async def read(self) -> bytes:
        """Return the next unpacked block, b"" at the end.

        Raises:
            OSError: it cannot be read.
            EOFError: a gzip stream ends too early.
            zlib.error: a gzip stream is damaged.
            OptionsError: it is UTF-16 text.
        """
        while not self._ended:
            if self._gunzip is not None and self._gunzip.pending:
                block = self._unpacked(b"")
            else:
                raw = await self._raw()
                if not raw:
                    self._finish()
                    break
                block = self._unpacked(raw)
            if block:
                return block
        return b""

    def close(self) -> None:
        """Let the file go; standard input stays open."""
        self._ended = True
        if self._fd is not None and self.name != STDIN:
            os.close(self._fd)
        self._fd = None

    def _finish(self) -> None:
        self.close()
        if self._gunzip is not None:
            try:
                self._gunzip.finish()
            except EOFError as error:
                raise EOFError(f"{self.name}: {error}") from None

    def _unpacked(self, raw: bytes) -> bytes:
        try:
            return self._gunzip.feed(raw) if self._gunzip is not None else raw
        except zlib.error as error:
            raise zlib.error(f"{self.name}: {error}") from None

    async def _raw(self) -> bytes:
        if self._fd is None:
            self._fd = sys.stdin.fileno() if self.name == STDIN else os.open(self.name, os.O_RDONLY | _AT_ONCE)
        raw = await self._block(self._fd)
        if self.consumed == 0:
            if raw.startswith(_GZIP):
                self._gunzip = Gunzip()
            elif raw.startswith(_UTF16):
                raise OptionsError("INPUT", self.name, "UTF-8 text", "it is UTF-16")
        self.consumed += len(raw)
        return raw

    async def _block(self, fd: int) -> bytes:
        while True:
            if not self._direct:
                await _readable(fd)
            try:
                return os.read(fd, _BLOCK)
            except BlockingIOError:
                continue


async def _readable(fd: int) -> None:
    """Wait until a read of `fd` returns at once."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(fd, _wake, ready)
    except (OSError, NotImplementedError):
        # What the selector does not take, such as /dev/null, never makes a reader wait.
        return
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _unreadable(name: str, error: Exception) -> OptionsError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OptionsError("INPUT", name, "a file that can be read, or - for standard input", reason.lower())
