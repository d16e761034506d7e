"""Files: those that a store has open, and whether their names still lead to them.

A file that is deleted or replaced goes on being written by those who have it open (POSIX), and all of that is gone with the
last of them. Nothing tells them, so whoever promises something looks.
"""

from __future__ import annotations

import os
from pathlib import Path

from comity.errors import StoreError


class Files:
    """A database's file and its log, as they are now; both have to be open.

    Args:
        path: the database's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The log stands beside the file itself, whatever links lead there.
        log = Path(os.path.realpath(path) + "-wal")
        self._known = [(each, _identity(each)) for each in (path.absolute(), log)]

    def check(self) -> None:
        """Make sure that what is written will be found again.

        Raises:
            StoreError: it will not.
        """
        for path, known in self._known:
            if _identity(path) != known:
                what = "the file" if path.name == self._path.name else f"its log {path.name}"
                raise StoreError(
                    f"{self._path}: {what} is gone, or is another one: what is stored now would be lost. Stop the service, put "
                    "the file back (or a copy of it) and start again",
                    reason="gone",
                )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
