"""Bitmap: which lines are finished, one bit each."""

from __future__ import annotations

from collections.abc import Iterator


class Bitmap:
    """A set of line numbers; a million of them take 125 KB.

    Attributes:
        highest: the highest line ever put in, 0 when there was none.

    Example:
        >>> done = Bitmap()
        >>> done.add(3)
        >>> 3 in done, 4 in done, len(done), done.highest
        (True, False, 1, 3)
    """

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0
        self.highest = 0

    def add(self, line: int) -> None:
        """Put a line in; twice is as good as once."""
        index, bit = line >> 3, 1 << (line & 7)
        if index >= len(self._bits):
            self._bits.extend(bytes(index + 1024 - len(self._bits)))
        if not self._bits[index] & bit:
            self._bits[index] |= bit
            self._count += 1
            self.highest = max(self.highest, line)

    def discard(self, line: int) -> None:
        """Take a line out."""
        if line in self:
            self._bits[line >> 3] &= ~(1 << (line & 7))
            self._count -= 1

    def packed(self) -> bytes:
        """Return the set as bytes, a bit for each number."""
        return bytes(self._bits).rstrip(b"\0")

    @classmethod
    def unpacked(cls, data: bytes) -> Bitmap:
        """Return the set that `packed` made bytes of."""
        found = cls()
        found._bits.extend(data)
        found._count = int.from_bytes(data, "little").bit_count()
        found.highest = max(int.from_bytes(data, "little").bit_length() - 1, 0)
        return found

    def __contains__(self, line: int) -> bool:
        index = line >> 3
        return index < len(self._bits) and bool(self._bits[index] & (1 << (line & 7)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for index, bits in enumerate(self._bits):
            if bits:
                yield from (index * 8 + bit for bit in range(8) if bits & (1 << bit))
