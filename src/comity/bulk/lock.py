"""Lock: one run at a time writes a journal."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any


def _system_locks() -> Any:
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    return fcntl


_fcntl = _system_locks()


def lock(fd: int, path: Path) -> bool:
    """Take the lock of an open journal without waiting; it goes with the process, however that ends.

    Where the system has no such lock, a file beside the journal stands for it. That file stays behind after a kill
    and is then to be removed by hand.

    Returns:
        Whether nobody else holds it and `path` still names the file that `fd` is.
    """
    if _fcntl is None:
        try:
            os.close(os.open(_stand_in(path), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True
    try:
        _fcntl.flock(fd, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError:
        return False
    # The holder before us may have replaced the file while we opened it.
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def replaces_open_files() -> bool:
    """Return whether a file that is open can be replaced; systems with file locks do so."""
    return _fcntl is not None


def lock_replacement(fd: int) -> None:
    """Take the lock of a new file that is about to take the place of one that we hold."""
    _fcntl.flock(fd, _fcntl.LOCK_EX | _fcntl.LOCK_NB)


def unlock(path: Path) -> None:
    """Give back a lock that closing the file does not give back."""
    if _fcntl is None:
        with contextlib.suppress(FileNotFoundError):
            _stand_in(path).unlink()


def _stand_in(path: Path) -> Path:
    return path.with_name(path.name + ".lock")
