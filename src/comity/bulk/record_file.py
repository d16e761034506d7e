"""RecordFile: the file of a journal, one JSON record a line, only ever appended to, which one run at a time holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from comity.bulk.files import check_folder, open_to_append, reason_of, sync_directory, write_all
from comity.bulk.lock import lock, lock_replacement, unlock
from comity.errors import OptionsError, StoreError

REPAIR = "put it back as it was; to begin again, remove both, and every row is sent anew"
encode = msgspec.json.encode


class RecordFile:
    """Open, or make, the file beside an output, and take its lock.

    Args:
        output: the output's path.
        dry: whether it is looked at alone: nothing is made, locked or written.

    Attributes:
        path: the output's name with `.comity` behind it.
        fd: the open file; -1 when it is closed.

    Raises:
        OptionsError: the output is not ours, another run holds it, or its folder cannot be used.
    """

    def __init__(self, output: Path, *, dry: bool = False) -> None:
        self.output, self.dry = output, dry
        self.path = output.with_name(output.name + ".comity")
        self.fd = self._open()

    @property
    def size(self) -> int:
        """Its size, bytes."""
        return os.fstat(self.fd).st_size

    def append(self, record: Mapping[str, object]) -> None:
        """Write a record at its end.

        Raises:
            StoreError: it cannot be written.
        """
        self.write(encode(record) + b"\n")

    def write(self, data: bytes) -> None:
        """Write records that are bytes already, line ends included.

        Raises:
            StoreError: they cannot be written.
        """
        if self.dry:
            return
        try:
            write_all(self.fd, data)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error

    def read(self, place: int, length: int) -> bytes:
        """Return a part of it."""
        os.lseek(self.fd, place, os.SEEK_SET)  # writing goes to the end all the same
        return os.read(self.fd, length)

    def cut(self, size: int) -> None:
        """Drop what stands behind `size` bytes."""
        if not self.dry:
            os.ftruncate(self.fd, size)

    def replace(self, records: Iterable[bytes], temporary: Path) -> None:
        """Put a file of these records in its place, in one step, and keep the lock.

        Args:
            records: what is to stand in it, line ends included.
            temporary: where it is written until it is whole.

        Raises:
            StoreError: it cannot be written; the old one stays.
        """
        fd = open_to_append(temporary, empty=True)
        try:
            for record in records:
                write_all(fd, record)
            os.fsync(fd)
            # Locked before it takes the old one's place, so that no run can slip in between.
            lock_replacement(fd)
            temporary.replace(self.path)
        except OSError as error:
            os.close(fd)
            raise StoreError(f"{temporary}: {error.strerror}") from error
        sync_directory(self.path.parent)
        os.close(self.fd)
        self.fd = fd

    def close(self) -> None:
        """Let the lock go."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            if not self.dry:
                unlock(self.path)

    def _open(self) -> int:
        before = self.path.exists()
        if not before and self.output.exists() and self.output.stat().st_size:
            allowed = "a new file, or the output of an earlier run with its journal"
            raise OptionsError("-o", str(self.output), allowed, f"it exists, and {self.path.name} does not")
        if before and self.output.exists() and not self.path.stat().st_size:
            raise OptionsError("-o", str(self.output), reason=f"{self.path.name} beside it is empty", hint=REPAIR)
        check_folder(self.output)
        try:
            if self.dry:
                return os.open(self.path if before else os.devnull, os.O_RDONLY)
            fd = open_to_append(self.path)
        except OSError as error:
            raise OptionsError("-o", str(self.output), reason=reason_of(error)) from None
        if not lock(fd, self.path):
            os.close(fd)
            allowed = "an output that no other run is writing"
            raise OptionsError("-o", str(self.output), allowed, f"{self.path.name} is locked")
        return fd
