"""Spilled: results that are finished before their turn in an ordered output, kept in the journal until it comes."""

from __future__ import annotations

from collections.abc import Iterator

from comity.bulk.history import FINISHED
from comity.bulk.output import Found, decode_found
from comity.bulk.record_file import RecordFile


class Spilled:
    """The lines whose results the journal keeps; only their places are in memory.

    Args:
        file: where results are kept.
        places: line -> place and size of its result, of those that an earlier run left.

    Attributes:
        used: whether the file holds, or held, such results.
    """

    def __init__(self, file: RecordFile, places: dict[int, tuple[int, int]]) -> None:
        self._file, self._places = file, places
        self.used = bool(places)

    def put(self, line: int, result: bytes) -> None:
        """Keep a result.

        Raises:
            StoreError: it cannot be written.
        """
        place = self._file.size + len(FINISHED)
        self._file.write(FINISHED + result + b"}\n")
        self._places[line] = (place, len(result))
        self.used = True

    def take(self, line: int) -> bytes:
        """Return a kept result, which is not kept any longer."""
        result = self._file.read(*self._places[line])
        del self._places[line]
        return result

    def found(self, line: int) -> Found:
        """Return a kept result, as far as going on needs it."""
        return decode_found(self._file.read(*self._places[line]))

    def discard(self, line: int) -> None:
        """Keep a line's result, if there is one, no longer."""
        self._places.pop(line, None)

    def clear(self) -> None:
        """Forget all of them: they are not where they were."""
        self._places.clear()

    def __contains__(self, line: int) -> bool:
        return line in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)
