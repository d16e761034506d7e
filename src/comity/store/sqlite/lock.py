"""Lock: one process at a time has a store's file.

SQLite lets many processes write one file by turns, and its write-ahead log can be damaged when two of them write or reset it
at once (SQLite 3.7.0 to 3.51.2, sqlite.org/wal.html#walresetbug). Claims and origins of a second process would besides be
taken for those of a dead one. The lock stands in a file of its own, as closing any other handle of the database's file
would drop SQLite's own locks (POSIX, fcntl).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from comity.errors import StoreError


class Lock:
    """The lock of a store; it goes with the process, however that ends.

    Raises:
        StoreError: another process (or another store of this one) has it, or its file cannot be made.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".lock")
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            hint = "; make its directory first" if isinstance(error, FileNotFoundError) else ""
            raise StoreError(f"{path}: {error.strerror}{hint}", reason="denied") from error
        try:
            _take(self._fd)
        except OSError as error:
            os.close(self._fd)
            said = f"{store}: another process has this store open; a file serves one process, Postgres serves many"
            raise StoreError(said, reason="busy") from error

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._fd)


if sys.platform == "win32":
    import msvcrt

    def _take(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
