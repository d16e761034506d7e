"""Journal: the sidecar `OUT.comity`, which makes a run resumable and keeps a second run out.

The output is the truth about what is finished: a line is done when its result stands there whole. The journal adds what
the output cannot tell. It is text, one JSON record a line, only ever appended to:

    {"comity": "journal", "version": 1, "nonce": ..., "template": ..., "method": ...}      the header
    {"from": 1, "digests": ...}   8 bytes for each input line from that number on, keyed by the nonce
    {"sending": [7]}              a request that must not be sent twice is about to be sent; synced before its first byte
    {"unsent": [7]}               ... and it was not, or was refused
    {"finished": {...}}           a result that waits for its place in an ordered output

A line that is `sending` and not in the output has an unknown outcome. Records are written before what they protect: a
digest before the line's result, `sending` before the first byte. A process killed at any moment therefore loses
nothing. A power cut can take results of the last moments, never a `sending`: what was lost is sent again, or is
reported as unknown.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import secrets
from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec

from comity.bulk.bitmap import Bitmap
from comity.bulk.files import fdatasync, open_to_append, sync_directory, write_all
from comity.bulk.lock import lock, lock_replacement, replaces_open_files, unlock
from comity.errors import OptionsError, StoreError

_VERSION = 1
_FULL_BLOCK = 4096
_DIGESTS, _FINISHED = b'{"from":', b'{"finished":'


class Header(msgspec.Struct, kw_only=True):
    """The first record: whose journal it is, and what turns lines into requests."""

    comity: str = "journal"
    version: int = _VERSION
    nonce: str
    template: str | None = None
    method: str | None = None


class _Line(msgspec.Struct):
    line: int


class _Record(msgspec.Struct):
    start: int = msgspec.field(default=0, name="from")
    digests: str = ""
    sending: list[int] = []
    unsent: list[int] = []
    finished: _Line | None = None


_decode_header = msgspec.json.Decoder(Header).decode
_decode = msgspec.json.Decoder(_Record).decode
_encode = msgspec.json.encode


class Journal:
    """Open, or begin, the journal of an output, and take its lock.

    Args:
        output: the output's path.
        template: the `--url` template, which must be the same when the run goes on.
        method: the `--method`, likewise.

    Attributes:
        fresh: whether there was no journal before.
        nonce: random text of this journal, the same after a kill.
        done: lines with a result; the owner fills it from the output.
        sending: lines that were about to be sent and have no result, as far as the journal knows.
        spilled: line -> place of its result, for results that wait for their turn.

    Raises:
        OptionsError: the output or journal is not ours, belongs to other options, or another run holds it.
        StoreError: the journal cannot be written.
    """

    def __init__(self, output: Path, *, template: str | None = None, method: str | None = None) -> None:
        self.output = output
        self.path = output.with_name(output.name + ".comity")
        self.done = Bitmap()
        self.sending = Bitmap()
        self.spilled: dict[int, tuple[int, int]] = {}
        self._old = array("Q")
        self._pending_from, self._pending = 0, bytearray()
        self._intents: list[int] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._committing: asyncio.Task[None] | None = None
        self._wasteful = False
        self._fd = self._open()
        try:
            self.fresh = os.fstat(self._fd).st_size == 0
            if self.fresh:
                self._begin(template, method)
            else:
                self._load(template, method)
        except BaseException:
            self.close()
            raise
        self._verified = 0

    @property
    def recorded(self) -> int:
        """Number of the last line whose digest is known from earlier runs."""
        return len(self._old) - 1

    @property
    def verified(self) -> bool:
        """Whether every finished line was compared with the input."""
        return self._verified >= min(self.recorded, max(self.done.highest, self.sending.highest))

    def see(self, line: int, data: bytes, *, header: bool = False) -> None:
        """Compare an input line with what is known of it, or note it.

        Raises:
            OptionsError: the line is finished and has changed since.
        """
        if line <= self._verified:
            return
        self._verified = line
        digest = hashlib.blake2b(data, digest_size=8, key=self._key).digest()
        if line < len(self._old):
            old, new = self._old[line], int.from_bytes(digest, "little")
            if old == new:
                return
            if old and (header or line in self.done or line in self.sending or line in self.spilled):
                what = "the header" if header else f"line {line}, which is finished,"
                hint = "give the input as it was (lines may be added at its end), or another -o"
                raise OptionsError("-o", str(self.output), f"it belongs to another input: {what} has changed", hint)
        self._note(line, digest)

    async def intend(self, line: int) -> None:
        """Put on the disk that a request is about to be sent; requests that ask together share one sync.

        Raises:
            StoreError: the journal cannot be written.
        """
        self._intents.append(line)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit())
        await waiter
        self.sending.add(line)

    def unsend(self, line: int) -> None:
        """Note that a request was not sent after all, or was refused, so that it may be sent again."""
        self.sending.discard(line)
        if line in self._intents:
            self._intents.remove(line)
        else:
            self._append({"unsent": [line]})

    def spill(self, line: int, result: bytes) -> None:
        """Keep a result until its place in the output comes."""
        self.flush()
        place = os.lseek(self._fd, 0, os.SEEK_END) + len(_FINISHED)
        self._write(_FINISHED + result + b"}\n")
        self.spilled[line] = (place, len(result))
        self._wasteful = True

    def unspill(self, line: int) -> bytes:
        """Return a kept result."""
        place, length = self.spilled.pop(line)
        os.lseek(self._fd, place, os.SEEK_SET)  # writing goes to the end all the same
        return os.read(self._fd, length)

    def flush(self) -> None:
        """Hand everything that waits to the system; a kill cannot take it any more.

        Raises:
            StoreError: it cannot be written.
        """
        if self._pending:
            text = base64.b64encode(self._pending).decode()
            record = {"from": self._pending_from, "digests": text}
            self._pending_from, self._pending = 0, bytearray()
            self._append(record)
        if self._intents:
            lines, self._intents = self._intents, []
            self._append({"sending": lines})

    def tidy(self) -> None:
        """Write the journal anew without what is settled, in one step, when it holds much of that."""
        self.flush()
        if not (self._wasteful or len(self.sending)) or not replaces_open_files():
            return
        temporary = self.path.with_name(self.path.name + ".new")
        fd = open_to_append(temporary, empty=True)
        try:
            for _, record in self._records():
                if record.startswith((_DIGESTS, b'{"comity":')) or self._waits(record):
                    write_all(fd, record)
            open_lines = [line for line in self.sending if line not in self.done]
            if open_lines:
                write_all(fd, _encode({"sending": open_lines}) + b"\n")
            os.fsync(fd)
            # Locked before it takes the old one's place, so that no run can slip in between.
            lock_replacement(fd)
            temporary.replace(self.path)
        except OSError as error:
            os.close(fd)
            raise StoreError(f"{temporary}: {error.strerror}") from error
        sync_directory(self.path.parent)
        os.close(self._fd)
        self._fd = fd
        self.spilled = {}

    def close(self) -> None:
        """Let the lock go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            unlock(self.path)

    @property
    def _key(self) -> bytes:
        return self.nonce.encode()

    def _waits(self, record: bytes) -> bool:
        if not record.startswith(_FINISHED):
            return False
        finished = _decode(record).finished
        return finished is not None and finished.line not in self.done

    def _open(self) -> int:
        before = self.path.exists()
        if not before and self.output.exists() and self.output.stat().st_size:
            allowed = "a new file, or the output of an earlier run with its journal"
            raise OptionsError("-o", str(self.output), allowed, f"it exists, and {self.path.name} does not")
        try:
            fd = open_to_append(self.path)
        except OSError as error:
            raise OptionsError("-o", str(self.output), "a path that can be written", str(error.strerror)) from None
        if not lock(fd, self.path):
            os.close(fd)
            allowed = "an output that no other run is writing"
            raise OptionsError("-o", str(self.output), allowed, f"{self.path.name} is locked")
        return fd

    def _begin(self, template: str | None, method: str | None) -> None:
        self.nonce = secrets.token_hex(16)
        self._write(_encode(Header(nonce=self.nonce, template=template, method=method)) + b"\n")

    def _load(self, template: str | None, method: str | None) -> None:
        records = self._records()
        place, first = next(records, (0, b""))
        try:
            header = _decode_header(first)
        except msgspec.DecodeError:
            header = Header(nonce="", comity="")
        if header.comity != "journal" or header.version != _VERSION:
            raise OptionsError(
                "-o", str(self.output), "an output with a journal of this version", f"{self.path} is none"
            )
        for option, was, given in (("--url", header.template, template), ("--method", header.method, method)):
            if was != given:
                raise OptionsError(option, given, f"the run that is to go on was begun with {was!r}")
        self.nonce = header.nonce
        end = len(first)
        for place, data in records:
            try:
                record = _decode(data) if data.endswith(b"\n") else None
            except msgspec.DecodeError:
                record = None
            if record is None:
                break
            self._apply(record, place, len(data))
            end = place + len(data)
        # What a kill or a power cut tore off protects nothing: it was to be whole before the next step was taken.
        os.ftruncate(self._fd, end)
        self._check_output()

    def _check_output(self) -> None:
        if not self.output.exists() and (len(self.sending) or self._old):
            hint = f"to begin again, remove {self.path.name} too"
            raise OptionsError(
                "-o", str(self.output), "the output of the run that its journal tells of", f"it is gone; {hint}"
            )

    def _apply(self, record: _Record, place: int, size: int) -> None:
        if record.digests:
            digests = array("Q", base64.b64decode(record.digests))
            end = record.start + len(digests)
            if end > len(self._old):
                self._old.frombytes(bytes(8 * (end - len(self._old))))
            self._old[record.start : end] = digests
        for line in record.sending:
            self.sending.add(line)
        for line in record.unsent:
            self.sending.discard(line)
        if record.finished is not None:
            self.spilled[record.finished.line] = (place + len(_FINISHED), size - len(_FINISHED) - 2)
            self._wasteful = True

    def _records(self) -> Iterator[tuple[int, bytes]]:
        place = 0
        with open(os.dup(self._fd), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.seek(0)
            for data in file:
                yield place, data
                place += len(data)

    def _note(self, line: int, digest: bytes) -> None:
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

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiters:
            waiters, self._waiters = self._waiters, []
            failed: StoreError | None = None
            try:
                self.flush()
                await loop.run_in_executor(None, fdatasync, self._fd)
            except StoreError as error:
                failed = error
            except OSError as error:
                failed = StoreError(f"{self.path}: {error.strerror}")
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(failed) if failed else waiter.set_result(None)
        self._committing = None

    def _append(self, record: dict[str, object]) -> None:
        self._write(_encode(record) + b"\n")

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._fd, data)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error
