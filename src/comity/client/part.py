"""Part: the file beside a download's path that holds what has come so far, until it is whole and takes its name.

    NAME.part        the bytes
    NAME.part.json   which representation they are of: the digest of its URL, its validator, its size

Both are left behind when a download is given up, so that the next one of the same URL goes on from there. A lock on the
open file keeps two downloads from writing into one. It is held until the names are in order, and who gets it looks whether
the file still has its name: else it was another's, who was faster, and has been given out whole or thrown away.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from comity.errors import OptionsError

try:
    import fcntl
except ImportError:  # Windows, where a second download of one path is not noticed
    fcntl = None  # type: ignore[assignment]

_PIECE = 1024 * 1024


class Part:
    """An unfinished file, locked from `open` to the end of `with`.

    Args:
        path: where the whole file will be.
        url: of what it holds.
        resume: whether what an earlier download left is gone on with.
        digest: makes the hash of the whole, or None.

    Attributes:
        size: bytes that are there.
        kept: how many of them an earlier download left.
        validator: a value for If-Range by which what is there can be gone on with, "" when it cannot.
    """

    def __init__(self, path: Path, url: str, *, resume: bool, digest: Callable[[], Any] | None) -> None:
        self.path = path
        self.size = self.kept = 0
        self.validator = ""
        self._url = hashlib.sha256(url.encode()).hexdigest()
        self._resume = resume
        self._digest = digest
        self._hash: Any = None
        self._data = path.with_name(path.name + ".part") if path.name else path
        self._about = path.with_name(path.name + ".part.json") if path.name else path
        self._opened: BinaryIO | None = None

    def open(self) -> None:
        """Open it, and see what is there.

        Raises:
            OptionsError: the path is a directory or in none that is there, or another download writes to it.
            OSError: the file cannot be opened.
        """
        if self.path.is_dir():
            raise OptionsError("path", str(self.path), "the path of a file", reason="it is a directory")
        if not self.path.parent.is_dir():
            raise OptionsError("path", str(self.path), "the path of a file", reason="there is no such directory")
        while self._opened is None:
            # A link is not followed: who may write in the directory could point it at any file of this user.
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            file = os.fdopen(os.open(self._data, flags, 0o666), "r+b")
            try:
                if self._locked(file):
                    self._opened = file
            finally:
                if self._opened is None:
                    file.close()
        self._begin()

    def restart(self, validator: str = "") -> None:
        """Throw away what is there; `validator` is of what comes now."""
        self._file.seek(0)
        self._file.truncate()
        self.size, self.kept, self.validator = 0, 0, validator
        self._hash = None if self._digest is None else self._digest()
        if validator:
            self._about.write_text(json.dumps({"url": self._url, "validator": validator}))
        else:
            self._about.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Add bytes at the end."""
        self._file.write(data)
        self.size += len(data)
        if self._hash is not None:
            self._hash.update(data)

    def hexdigest(self) -> str:
        """Return the hash of what is there."""
        value: str = self._hash.hexdigest()
        return value

    def finish(self) -> None:
        """Give the file its name; it is on disk then."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._end(self._name)

    def remove(self) -> None:
        """Leave nothing behind."""
        self._end(self._unlink)

    @property
    def _file(self) -> BinaryIO:
        assert self._opened is not None
        return self._opened

    def _locked(self, file: BinaryIO) -> bool:
        """Lock a file; return whether it is still the one of the name."""
        try:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionsError("path", str(self.path), reason="another download is writing to it") from None
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.lstat(self._data))
        except FileNotFoundError:
            return False

    def _begin(self) -> None:
        """Go on with what is there, if it is known what it is of."""
        about = self._known() if self._resume else {}
        if about.get("url") != self._url or not isinstance(about.get("validator"), str):
            self.restart()
            return
        self.validator = about["validator"]
        self._hash = None if self._digest is None else self._digest()
        while piece := self._file.read(_PIECE):
            self.size += len(piece)
            if self._hash is not None:
                self._hash.update(piece)
        self.kept = self.size

    def _end(self, last: Callable[[], None]) -> None:
        """Put the names in order while the lock holds, and close."""
        file, self._opened = self._file, None
        with file:
            if os.name == "nt":
                file.close()  # Windows gives an open file no other name
            last()

    def _name(self) -> None:
        self._data.replace(self.path)
        self._about.unlink(missing_ok=True)

    def _unlink(self) -> None:
        self._about.unlink(missing_ok=True)
        self._data.unlink(missing_ok=True)

    def _known(self) -> dict[str, Any]:
        try:
            about = json.loads(self._about.read_text())
        except (FileNotFoundError, ValueError, RecursionError):  # none, or none of ours: begin anew
            return {}
        return about if isinstance(about, dict) else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is None:
            return
        if self.validator:
            self._end(lambda: None)
        else:
            self.remove()  # nobody could go on with it
