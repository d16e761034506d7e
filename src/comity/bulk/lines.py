"""LineSplitter: bytes in, numbered lines out. No file is touched here.

Lines end with LF or CRLF; a byte order mark before the first is dropped; the last line needs no end. A line longer
than the limit keeps its beginning and is marked, and its rest is thrown away as it comes, so that memory stays
bounded whatever the input is.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_LINE = 8 * 1024 * 1024
KEPT_OF_LONG = 1024
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line of an input without its end.

    Attributes:
        number: 1 for the first line; it counts on through several inputs.
        data: its bytes; only the first `KEPT_OF_LONG` of them when it is too long.
        too_long: whether it is longer than the limit.
    """

    number: int
    data: bytes
    too_long: bool = False


class LineSplitter:
    """Cut a stream of bytes into numbered lines.

    Args:
        limit: longest line in bytes.
        first: number of the first line.
    """

    def __init__(self, *, limit: int = MAX_LINE, first: int = 1) -> None:
        self.limit = limit
        self.next = self._first = first
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that `chunk` completes."""
        first, *others = chunk.split(b"\n")
        if not others:
            self._hold(first)
            return []
        self._hold(first)
        lines = [self._take()]
        last = others.pop()
        lines.extend(self._line(data) for data in others)
        self._hold(last)
        return lines

    def finish(self) -> list[Line]:
        """Return the last line when it had no end."""
        return [self._take()] if self._held else []

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        # What is over the limit is counted but not kept.
        if part and self._held - len(part) <= self.limit:
            self._parts.append(part)

    def _take(self) -> Line:
        data = b"".join(self._parts)
        too_long = self._held > self.limit
        self._parts, self._held = [], 0
        return self._line(data, too_long=too_long)

    def _line(self, data: bytes, *, too_long: bool = False) -> Line:
        number = self.next
        self.next += 1
        if number == self._first:
            data = data.removeprefix(_BOM)
        if too_long or len(data) > self.limit:
            return Line(number, data[:KEPT_OF_LONG], too_long=True)
        return Line(number, data.removesuffix(b"\r"))
