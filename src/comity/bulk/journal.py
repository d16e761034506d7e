"""Journal: the sidecar `OUT.comity`, which makes a run resumable and keeps a second run out.

The output is the truth about what is finished: a line is done when its result stands there whole. The journal adds what
the output cannot tell. It is text, one JSON record a line, only ever appended to:

    {"comity": "journal", "version": 1, "nonce": ..., "begun": {"--url": ..., ...}}      the header
    {"from": 1, "digests": ...}   8 bytes for each input line from that number on, keyed by the nonce
    {"sending": [7]}              a request that must not be sent twice is about to be sent; synced before its first byte
    {"unsent": [7]}               ... and it was not, or was refused
    {"finished": {...}}           a result that waits for its place in an ordered output
    {"settled": ...}              a bit for each line that must not be sent twice and has its result in the output

A line that is `sending` and not in the output has an unknown outcome. One that is `settled` and not there was taken out
by somebody: the run does not go on as if it had never been sent. Records are written before what they protect: a
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
from collections.abc import Mapping
from pathlib import Path

import msgspec

from comity.bulk.bitmap import Bitmap
from comity.bulk.files import check_folder, fdatasync, open_to_append, reason_of, sync_directory, write_all
from comity.bulk.history import DIGESTS, FINISHED, HEADER, Header, History, records, waiting_line
from comity.bulk.lock import lock, lock_replacement, replaces_open_files, unlock
from comity.bulk.output import Found, decode_found
from comity.errors import OptionsError, StoreError

_FULL_BLOCK = 4096
_REPAIR = "put it back as it was; to begin again, remove both, and every row is sent anew"
_encode = msgspec.json.encode


class Journal:
    """Open, or begin, the journal of an output, and take its lock.

    Args:
        output: the output's path.
        begun: option -> value, for those that must be the same when the run goes on.
        dry: whether it is looked at and checked alone: nothing is made, locked or changed.

    Attributes:
        fresh: whether there was no journal before.
        nonce: random text of this journal, the same after a kill.
        done: lines with a result; the owner fills it from the output.
        sending: lines that were about to be sent and have no result, as far as the journal knows.
        settled: lines that must not be sent twice and whose result was safe in the output when a run ended.
        unsafe: lines that reached the wire and must not be sent twice; they are settled at the end.
        spilled: line -> place of its result, for results that wait for their turn.

    Raises:
        OptionsError: the output or journal is not ours, belongs to other options, or another run holds it.
        StoreError: the journal cannot be written.
    """

    def __init__(self, output: Path, begun: Mapping[str, str] | None = None, *, dry: bool = False) -> None:
        self.output = output
        self.path = output.with_name(output.name + ".comity")
        self.dry = dry
        self.done = Bitmap()
        self.unsafe = Bitmap()
        self._pending_from, self._pending = 0, bytearray()
        self._intents: list[int] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._committing: asyncio.Task[None] | None = None
        self._fd = self._open()
        try:
            self.fresh = os.fstat(self._fd).st_size == 0
            history = History(self._fd)
            self.nonce = history.nonce
            self.sending, self.settled, self.spilled = history.sending, history.settled, history.spilled
            self._old, self._wasteful = history.digests, bool(history.spilled)
            if self.fresh:
                self._begin(begun or {})
            else:
                self._load(history, begun or {})
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

    def scratch(self, what: str) -> Path:
        """Return the name of a file for a moment; the nonce in it keeps it from being anybody else's."""
        return self.path.with_name(f"{self.path.name}.{self.nonce}.{what}")

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
        self.settled.discard(line)
        self.spilled.pop(line, None)
        if line in self._intents:
            self._intents.remove(line)
        else:
            self._append({"unsent": [line]})

    def spill(self, line: int, result: bytes) -> None:
        """Keep a result until its place in the output comes."""
        self.flush()
        place = os.lseek(self._fd, 0, os.SEEK_END) + len(FINISHED)
        self._write(FINISHED + result + b"}\n")
        self.spilled[line] = (place, len(result))
        self._wasteful = True

    def unspill(self, line: int) -> bytes:
        """Return a kept result, whose place has come."""
        result = self._kept(line)
        del self.spilled[line]
        return result

    def spilled_result(self, line: int) -> Found:
        """Return a kept result, as far as going on needs it."""
        return decode_found(self._kept(line))

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
        """Note what is settled, and write the journal anew without what that makes idle, in one step.

        Call it when the output is on the disk.
        """
        self.flush()
        settled = self._settle()
        if not (self._wasteful or len(self.sending)) or not replaces_open_files():
            if settled:
                self._write(settled)
            return
        temporary = self.scratch("journal")
        fd = open_to_append(temporary, empty=True)
        try:
            for _, record in records(self._fd):
                if record.startswith((DIGESTS, HEADER)) or self._waits(record):
                    write_all(fd, record)
            open_lines = [line for line in self.sending if line not in self.done]
            if open_lines:
                write_all(fd, _encode({"sending": open_lines}) + b"\n")
            write_all(fd, settled)
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
            if not self.dry:
                unlock(self.path)

    @property
    def _key(self) -> bytes:
        return self.nonce.encode()

    def _kept(self, line: int) -> bytes:
        place, length = self.spilled[line]
        os.lseek(self._fd, place, os.SEEK_SET)  # writing goes to the end all the same
        return os.read(self._fd, length)

    def _waits(self, record: bytes) -> bool:
        line = waiting_line(record)
        return line > 0 and line not in self.done

    def _settle(self) -> bytes:
        """Return the record of all settled lines, b"" when there is none."""
        for lines in (self.unsafe, self.sending):
            for line in lines:
                if line in self.done:
                    self.settled.add(line)
        if not len(self.settled):
            return b""
        return _encode({"settled": base64.b64encode(self.settled.packed()).decode()}) + b"\n"

    def _open(self) -> int:
        before = self.path.exists()
        if not before and self.output.exists() and self.output.stat().st_size:
            allowed = "a new file, or the output of an earlier run with its journal"
            raise OptionsError("-o", str(self.output), allowed, f"it exists, and {self.path.name} does not")
        if before and self.output.exists() and not self.path.stat().st_size:
            raise OptionsError("-o", str(self.output), reason=f"{self.path.name} beside it is empty", hint=_REPAIR)
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

    def _begin(self, begun: Mapping[str, str]) -> None:
        self.nonce = secrets.token_hex(16)
        self._write(_encode(Header(nonce=self.nonce, begun=dict(begun))) + b"\n")

    def _load(self, history: History, begun: Mapping[str, str]) -> None:
        if not history.nonce:
            raise OptionsError(
                "-o", str(self.output), "an output with a journal of this version", f"{self.path} is none"
            )
        if history.damaged:
            reason = f"record {history.damaged} of {self.path.name} is damaged"
            raise OptionsError("-o", str(self.output), reason=reason, hint=_REPAIR)
        history.check_options(begun)
        # What a kill or a power cut tore off protects nothing: it was to be whole before the next step was taken.
        if not self.dry:
            os.ftruncate(self._fd, history.end)
        self._check_output()

    def _check_output(self) -> None:
        if not self.output.exists() and (len(self.sending) or self._old):
            hint = f"to begin again, remove {self.path.name} too"
            raise OptionsError(
                "-o", str(self.output), "the output of the run that its journal tells of", f"it is gone; {hint}"
            )

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
        if self.dry:
            return
        try:
            write_all(self._fd, data)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error
