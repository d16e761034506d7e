"""Output: where results go. A JSON lines file, a SQLite table (sqlite.py) or a stream (stream.py)."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Protocol

import msgspec

from comity.bulk.files import open_to_append, reason_of, sync_directory, write_all
from comity.errors import OptionsError, StoreError

_BLOCK = 1024 * 1024
_BEGIN = b'{"id":'

UNKNOWN = "unknown"
"""The error type of a row that may or may not have been carried out."""


LineNumber = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
"""A number that can be a line's."""


class FoundError(msgspec.Struct):
    """What a found result says about its failure."""

    type: str


class FoundAttempt(msgspec.Struct):
    """What a found result says about an attempt."""

    sent: str = "no"


class Found(msgspec.Struct):
    """A result of an earlier run, as far as going on needs it."""

    line: LineNumber
    ok: bool
    method: str | None = None
    status: int | None = None
    error: FoundError | None = None
    attempts: list[FoundAttempt] = []

    @property
    def unknown(self) -> bool:
        """Whether the request may have been carried out although no answer came."""
        if self.error is not None and self.error.type == UNKNOWN:
            return True
        return not self.ok and self.status is None and any(each.sent != "no" for each in self.attempts)

    @property
    def reached(self) -> bool:
        """Whether the request reached the wire, or may have."""
        return self.unknown or any(each.sent != "no" for each in self.attempts)


class Results(Protocol):
    """What earlier runs left."""

    def found(self) -> Iterator[Found]:
        """Yield the results of earlier runs; what a kill tore off is dropped."""

    def keep(self, wanted: Callable[[Found], bool]) -> None:
        """Drop the results that are not wanted, in one step that a kill cannot halve."""


class Output(Results, Protocol):
    """Where results go."""

    def write(self, results: Sequence[bytes]) -> None:
        """Add results, each a JSON object; when it returns a kill takes none of them."""

    def sort(self) -> None:
        """Bring the results into the order of the input."""

    def sync(self) -> None:
        """Put everything on the disk, so that a power cut takes none of it."""

    def close(self) -> None:
        """Put everything on the disk and let go."""


decode_found = msgspec.json.Decoder(Found).decode


class JsonLines:
    """A file with one result a line, only ever appended to.

    Args:
        path: the file; it is made when there is none.
        scratch: the name of a file beside it, which takes its place when it is written anew.

    Raises:
        OptionsError: it cannot be opened.
    """

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path, self.scratch = path, scratch
        self._size = 0
        try:
            self._fd = open_to_append(path)
        except OSError as error:
            raise OptionsError("-o", str(path), reason=reason_of(error)) from None

    def found(self) -> Iterator[Found]:
        """Yield the results of earlier runs.

        Raises:
            OptionsError: a line is no result.
        """
        end = 0
        for found, size in results_in(self.path):
            yield found
            end += size
        os.ftruncate(self._fd, end)
        self._size = end

    def keep(self, wanted: Callable[[Found], bool]) -> None:
        """Write the file anew with the wanted results and let it take the old one's place."""
        self._replace(
            line for number, line in enumerate(_lines(self.path), 1) if wanted(_read(self.path, number, line))
        )

    def write(self, results: Sequence[bytes]) -> None:
        """Append results with one call to the system.

        Raises:
            StoreError: the disk is full or fails; the file then ends with its last whole line.
        """
        data = b"\n".join(results) + b"\n"
        try:
            write_all(self._fd, data)
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise StoreError(f"{self.path}: {error.strerror}") from error
        self._size += len(data)

    def sort(self) -> None:
        """Bring the lines into the order of the input, if they are not; 8 bytes of memory for each."""
        last, in_order = 0, True
        for found, _ in results_in(self.path):
            in_order = in_order and found.line > last
            last = max(last, found.line)
        if not in_order:
            places, place = array("Q", bytes(8 * (last + 1))), 0
            for found, size in results_in(self.path):
                places[found.line] = place + 1
                place += size
            with self.path.open("rb") as file:
                self._replace(_line_at(file, place - 1) for place in places if place)

    def sync(self) -> None:
        """Put everything on the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Put everything on the disk and let the file go."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _replace(self, lines: Iterator[bytes]) -> None:
        temporary = self.scratch
        try:
            fd = open_to_append(temporary, empty=True)
            try:
                _write_lines(fd, lines)
                os.fsync(fd)
            finally:
                os.close(fd)
            shutil.copymode(self.path, temporary)
            # Some systems replace no file that is open; the journal's lock keeps others out meanwhile.
            os.close(self._fd)
            self._fd = -1
            temporary.replace(self.path)
            self._fd = open_to_append(self.path)
        except OSError as error:
            raise StoreError(f"{temporary}: {error.strerror}") from error
        sync_directory(self.path.parent)
        self._size = os.fstat(self._fd).st_size


def _write_lines(fd: int, lines: Iterator[bytes]) -> None:
    block = bytearray()
    for line in lines:
        block += line
        if len(block) > _BLOCK:
            write_all(fd, bytes(block))
            block.clear()
    write_all(fd, bytes(block))


def results_in(path: Path) -> Iterator[tuple[Found, int]]:
    """Yield the results in a file and their sizes in bytes, without touching it; a torn last line is left out.

    Raises:
        OptionsError: a line is no result.
    """
    for number, line in enumerate(_lines(path), 1):
        if line.endswith(b"\n"):
            yield _read(path, number, line), len(line)
        elif not _is_torn(line):
            raise _foreign(path, number)


def _line_at(file: BinaryIO, place: int) -> bytes:
    file.seek(place)
    return file.readline()


def _read(path: Path, number: int, line: bytes) -> Found:
    try:
        return decode_found(line)
    except msgspec.DecodeError:
        raise _foreign(path, number) from None


def _foreign(path: Path, number: int) -> OptionsError:
    hint = f"line {number} of it is no result"
    return OptionsError("-o", str(path), "a new file, or the output of an earlier run", hint)


def _is_torn(line: bytes) -> bool:
    """Return whether this may be the beginning of a result, or what a power cut leaves of one."""
    return line[: len(_BEGIN)] == _BEGIN[: len(line)] or not line.strip(b"\0")


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
