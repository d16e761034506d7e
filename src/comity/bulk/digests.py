"""Digests: 8 bytes for each line of the input, which tell whether it is still what it was."""

from __future__ import annotations

import base64
import hashlib
from array import array

from comity.bulk.record_file import RecordFile

_FULL_BLOCK = 4096


class Digests:
    """The digests of earlier runs, and those of new lines, which go into the journal in blocks.

    Args:
        file: where new ones are written.
        known: line -> digest from earlier runs, 0 where none is known.
        key: what the digests are keyed with, so that nobody can make two lines that share one.
    """

    def __init__(self, file: RecordFile, known: array[int], key: bytes) -> None:
        self._file, self._known, self._key = file, known, key
        self._compared = 0
        self._pending_from, self._pending = 0, bytearray()

    @property
    def recorded(self) -> int:
        """Number of the last line whose digest is known from earlier runs."""
        return len(self._known) - 1

    def unlike(self, line: int, data: bytes) -> bytes | None:
        """Return the digest of a line that is not as it was known; None when it is, or was compared before."""
        if line <= self._compared:
            return None
        self._compared = line
        digest = hashlib.blake2b(data, digest_size=8, key=self._key).digest()
        if line < len(self._known) and self._known[line] == int.from_bytes(digest, "little"):
            return None
        return digest

    def knows(self, line: int) -> bool:
        """Return whether an earlier run noted a digest of this line."""
        return line < len(self._known) and self._known[line] != 0

    def note(self, line: int, digest: bytes) -> None:
        """Take the digest of a line; a full block is written.

        Raises:
            StoreError: it cannot be written.
        """
        following = self._pending_from + len(self._pending) // 8
        if not self._pending:
            self._pending_from = line
        elif line < following or line - following > _FULL_BLOCK or len(self._pending) >= 8 * _FULL_BLOCK:
            self.flush()
            self._pending_from = line
        else:
            # Blank lines and the inner lines of a table's record have no digest of their own.
            self._pending.extend(bytes(8 * (line - following)))
        self._pending.extend(digest)

    def flush(self) -> None:
        """Write what waits.

        Raises:
            StoreError: it cannot be written.
        """
        if self._pending:
            record = {"from": self._pending_from, "digests": base64.b64encode(self._pending).decode()}
            self._pending_from, self._pending = 0, bytearray()
            self._file.append(record)
