"""Writing to disk so that a kill or a full disk leaves nothing half done."""

from __future__ import annotations

import os
from pathlib import Path

from comity.errors import OptionsError

fdatasync = getattr(os, "fdatasync", os.fsync)
"""Put a file's data on the disk; macOS and Windows have fsync alone."""


_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


def open_to_append(path: Path, *, empty: bool = False) -> int:
    """Open a file for reading and for writing at its end; it is made when there is none, and emptied when asked.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, _APPEND | (os.O_TRUNC if empty else 0), 0o644)


def check_folder(path: Path) -> None:
    """Refuse a file whose folder is not there or takes no new files.

    Raises:
        OptionsError: with the reason.
    """
    folder = path.parent
    if not folder.is_dir():
        raise OptionsError("-o", str(path), reason=f"the folder {folder} does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OptionsError("-o", str(path), reason=f"the folder {folder} cannot be written to")


def reason_of(error: OSError) -> str:
    """Return what the system says of an error, as part of a sentence."""
    return (error.strerror or str(error)).lower()


def write_all(fd: int, data: bytes) -> None:
    """Write everything, however often the system takes less.

    Raises:
        OSError: the disk is full, the file too large, the pipe closed.
    """
    written = os.write(fd, data)
    view = memoryview(data)[written:]
    while view:
        view = view[os.write(fd, view) :]


def sync_directory(path: Path) -> None:
    """Make a rename within a directory last through a power cut, where directories can be opened."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
