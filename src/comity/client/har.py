"""Har: a file of every wire attempt that browsers' developer tools and HAR viewers open (HAR 1.2).

Theory. The file ends with its closing brackets after every entry; the next entry is written over them, with new ones
behind it, in one write that makes the file longer. So it is whole after each entry, whatever becomes of the process, and
nothing is kept in memory. Nobody waits to add one, as that may be a destructor, which runs anywhere, also where its own
thread is writing: who finds another at it leaves the entry to that one, who looks once more when it is done.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO, IOBase
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote_plus

import comity
from comity import redact
from comity.client import media
from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response
from comity.engine.call import Exchange, Slot
from comity.errors import OptionsError, StoreError
from comity.policy.attempt import Timings

try:
    import fcntl
except ImportError:  # Windows, where a second recording of one path is not noticed
    fcntl = None  # type: ignore[assignment]

MAX_TEXT = 64 * 1024
"""Most characters of a body that `bodies=True` writes; what is cut says so in `comment`."""

_TAIL = b"\n]}}\n"
_HEAD = 4096
_HAR = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{\s*"(?:version|creator|browser|pages|entries|comment)"')
_NEEDS = "a new path, an empty file or a HAR file, which is replaced"


class Har:
    """A HAR 1.2 file that grows by an entry per wire attempt while it is open; made by `AsyncClient.har`.

    Args:
        path: where; a HAR file there is replaced, anything else is left alone, as is one that another recording writes.
        bodies: whether text bodies are written too, each up to `MAX_TEXT` characters; they may hold secrets.
        append: go on behind the entries of a recording that is there, instead of replacing it.
        owner: the recordings of a client; this one is among them while it is open.
        option: what the path is called in an error.

    Raises:
        OptionsError: the path cannot be used; raised when it is opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        bodies: bool = False,
        append: bool = False,
        owner: list[Har],
        option: str = "path",
    ) -> None:
        self.path = os.fspath(path)
        self._bodies, self._append, self._owner, self._option = bodies, append, owner, option
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._file: FileIO | None = None
        self._end = self._count = self._process = 0
        self._bare = True
        """Whether no entry is in the file."""
        self._failure: OSError | None = None

    def __enter__(self) -> Self:
        check_target(self.path, self._option)
        creator = {"name": "comity", "version": comity.__version__}
        head = f'{{"log":{{"version":"1.2","creator":{json.dumps(creator)},"entries":['.encode()
        try:
            # Others may not read it: a URL's path and a body can hold what no rule knows to be a secret.
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            self._file = FileIO(fd, "r+")
            _lock(self._file)
            if not (self._append and self._goes_on(self._file)):
                self._file.truncate()
                self._write(self._file, head + _TAIL)
                self._end, self._bare = len(head), True
        except OptionsError:
            self._close()
            raise
        except OSError as error:
            self._close()
            raise OptionsError(self._option, self.path, _NEEDS, reason=_why(error)) from None
        self._process = os.getpid()
        self._owner.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file.

        Raises:
            StoreError: entries could not be written. An error that ends the `with` block itself gets this as a note.
        """
        if self in self._owner:
            self._owner.remove(self)
        with self._lock:
            self._write_waiting()
            self._close()
        if self._failure is None:
            return
        said = f"{self.path} holds the first {self._count} attempts of this recording only: {self._failure.strerror or self._failure}"
        if error is None:
            raise StoreError(said) from self._failure
        error.add_note(said)

    def add(
        self, request: Request, exchange: Exchange[Response], slot: Slot, *, size: int | None = None, comment: str = ""
    ) -> None:
        """Append an attempt; when that fails recording ends, and closing tells so.

        Args:
            request: as it was sent.
            exchange: what it came to.
            slot: the attempt's.
            size: bytes that were read of a body that `exchange` does not hold.
            comment: what else is to be known of it.
        """
        if self._process != os.getpid():  # a child process shares the file's position
            return
        entry = _entry(request, exchange, slot, self._bodies)
        if size is not None:
            entry["response"]["content"]["size"] = size
        if comment:
            entry["comment"] = comment
        self._waiting.append(json.dumps(entry, separators=(",", ":")).encode())
        while self._waiting and self._lock.acquire(blocking=False):
            try:
                self._write_waiting()
            finally:
                self._lock.release()

    def _write_waiting(self) -> None:
        while self._waiting:
            data = self._waiting.popleft()
            if self._file is None:
                continue
            data = (b"\n" if self._bare else b",\n") + data
            try:
                self._write(self._file, data + _TAIL)
            except OSError as error:
                self._failure = error
                self._mend(self._file)
                self._close()
                continue
            self._end += len(data)
            self._count, self._bare = self._count + 1, False

    def _goes_on(self, file: FileIO) -> bool:
        """Find the place behind the entries that are there; return False when the file is empty.

        Raises:
            OptionsError: it does not end as a recording of ours leaves it.
        """
        size = file.seek(0, os.SEEK_END)
        if not size:
            return False
        file.seek(max(0, size - len(_TAIL) - 1))
        last = file.read(len(_TAIL) + 1)
        if last[1:] != _TAIL:
            reason = "comity did not write it, and so cannot go on in it"
            raise OptionsError(self._option, self.path, "another path", reason=reason)
        self._end, self._bare = size - len(_TAIL), last[:1] == b"["
        return True

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                if self._process == os.getpid() and fcntl is not None:
                    fcntl.flock(file.fileno(), fcntl.LOCK_UN)  # a forked child may have the file open still
                file.close()
            except OSError as error:
                self._failure = self._failure or error

    def _write(self, file: FileIO, data: bytes) -> None:
        """Write behind the last entry."""
        file.seek(self._end)
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]

    def _mend(self, file: FileIO) -> None:
        """Take off what was written in part; what came before it is whole again, if the disk lets us."""
        with suppress(OSError):
            file.truncate(self._end)
            self._write(file, _TAIL)


def check_target(path: str, option: str = "path") -> None:
    """Check that a recording may be written to a path: nothing is there, or an empty file, or a HAR file.

    Raises:
        OptionsError: something else is there, it cannot be read, or another recording writes to it.
    """
    file = Path(path)
    if os.path.lexists(path) and not file.is_file():
        raise OptionsError(option, path, _NEEDS, reason="it is no file")
    try:
        with file.open("rb") as there:
            _lock(there)
            head = there.read(_HEAD)
    except FileNotFoundError:
        if not file.parent.is_dir():
            raise OptionsError(option, path, _NEEDS, reason="there is no such directory") from None
        return
    except OSError as error:
        raise OptionsError(option, path, _NEEDS, reason=_why(error)) from None
    if head and not _HAR.match(head):
        raise OptionsError(option, path, _NEEDS, reason="it exists and is no HAR file")


def _lock(file: IOBase) -> None:
    """Keep other recordings out, in whatever process, until the file is closed, or raise BlockingIOError.

    A file that is open for reading alone is locked as readers may: network file systems let it no other way.
    """
    if fcntl is not None:
        fcntl.flock(file.fileno(), (fcntl.LOCK_EX if file.writable() else fcntl.LOCK_SH) | fcntl.LOCK_NB)


def _why(error: OSError) -> str:
    return "another recording is writing to it" if isinstance(error, BlockingIOError) else str(error.strerror)


def _entry(request: Request, exchange: Exchange[Response], slot: Slot, bodies: bool) -> dict[str, Any]:
    timings = exchange.timings.queued_for(slot.queued / 1e9)
    phases = _phases(timings)
    entry = {
        "startedDateTime": _moment(slot.wall - slot.queued),
        # `connect` holds `ssl` (HAR 1.2, timings).
        "time": round(sum(value for name, value in phases.items() if value > 0 and name != "ssl"), 3),
        "request": _request(request, bodies),
        "response": _response(exchange, bodies),
        "cache": {},
        "timings": phases,
        "_attempt": slot.number,
        "_sent": exchange.outcome.sent,
        "_waited": _ms(slot.waited / 1e9),
    }
    if exchange.error is not None:
        entry["_error"] = redact.text(f"{type(exchange.error).__name__}: {exchange.error}")
    return entry


def _request(request: Request, bodies: bool) -> dict[str, Any]:
    url = redact.url(request.url)
    content = request.content or b""
    row: dict[str, Any] = {
        "method": request.method,
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(request.headers),
        "queryString": _query(url),
        "headersSize": -1,
        "bodySize": len(content),
    }
    kind = request.headers.get("content-type")
    if bodies and content and _is_text(kind):
        row["postData"] = {"mimeType": redact.text(kind or ""), **_text(media.decode_text(content, kind))}
    return row


def _response(exchange: Exchange[Response], bodies: bool) -> dict[str, Any]:
    response = exchange.value
    kind = None if response is None else response.headers.get("content-type")
    content: dict[str, Any] = {
        "size": 0 if response is None else len(response.content),
        "mimeType": redact.text(kind or ""),
    }
    if bodies and response is not None and response.content and _is_text(kind):
        content |= _text(response.text)
    return {
        "status": (exchange.outcome.status or 0) if response is None else response.status_code,
        "statusText": "" if response is None else response.reason,
        "httpVersion": "" if response is None else "HTTP/1.1",
        "cookies": [],
        "headers": [] if response is None else _headers(response.headers),
        "content": content,
        "redirectURL": "" if response is None else redact.url(response.headers.get("location") or ""),
        "headersSize": -1,
        "bodySize": -1,
    }


def _phases(timings: Timings) -> dict[str, float]:
    """Return the phases in ms; -1 stands for one that did not happen, where HAR 1.2 allows that."""
    return {
        "blocked": _ms(timings.queue + timings.pool),
        "dns": _ms(timings.dns) or -1,
        "connect": _ms(timings.connect + timings.tls) or -1,
        "ssl": _ms(timings.tls) or -1,
        "send": _ms(timings.upload),
        "wait": _ms(timings.response),
        "receive": _ms(timings.download),
    }


def _headers(headers: Headers) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in redact.headers(headers.pairs)]


def _query(url: str) -> list[dict[str, str]]:
    """Return the fields of a masked URL's query, decoded."""
    parts = [part.partition("=") for part in url.partition("#")[0].partition("?")[2].split("&") if part]
    return [{"name": unquote_plus(name), "value": redact.text(unquote_plus(value))} for name, _, value in parts]


def _is_text(kind: str | None) -> bool:
    return media.kind(kind) != "bytes"


def _text(text: str) -> dict[str, str]:
    if len(text) <= MAX_TEXT:
        return {"text": text}
    return {"text": text[:MAX_TEXT], "comment": f"cut after {MAX_TEXT} of {len(text)} characters"}


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def _moment(wall: int) -> str:
    return datetime.fromtimestamp(wall / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
