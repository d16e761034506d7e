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

import base64
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from comity.bulk.bitmap import Bitmap
from comity.bulk.digests import Digests
from comity.bulk.history import DIGESTS, HEADER, Header, History, records, waiting_line
from comity.bulk.intents import Intents
from comity.bulk.lock import replaces_open_files
from comity.bulk.record_file import RecordFile, encode
from comity.bulk.spilled import Spilled
from comity.errors import OptionsError


class Journal:
    """Open, or begin, the journal of an output, and take its lock.

    Args:
        output: the output's path.
        begun: option -> value, for those that must be the same when the run goes on.
        dry: whether it is looked at and checked alone: nothing is made, locked or changed.

    Attributes:
        nonce: random text of this journal, the same after a kill.
        done: lines with a result; the owner fills it from the output.
        sending: lines that were about to be sent and have no result, as far as the journal knows.
        settled: lines that must not be sent twice and whose result was safe in the output when a run ended.
        unsafe: lines that reached the wire and must not be sent twice; they are settled at the end.
        spilled: the results that wait for their turn.

    Raises:
        OptionsError: the output or journal is not ours, belongs to other options, or another run holds it.
        StoreError: the journal cannot be written.
    """

    def __init__(self, output: Path, begun: Mapping[str, str] | None = None, *, dry: bool = False) -> None:
        self.output = output
        self.file = RecordFile(output, dry=dry)
        self.path = self.file.path
        self.done, self.unsafe = Bitmap(), Bitmap()
        try:
            history = History(self.file.fd)
            self.sending, self.settled = history.sending, history.settled
            self.nonce = self._load(history, begun or {}) if self.file.size else self._begin(begun or {})
        except BaseException:
            self.close()
            raise
        self.spilled = Spilled(self.file, history.spilled)
        self._digests = Digests(self.file, history.digests, self.nonce.encode())
        self._intents = Intents(self.file, self.flush)

    @property
    def recorded(self) -> int:
        """Number of the last line whose digest is known from earlier runs."""
        return self._digests.recorded

    def scratch(self, what: str) -> Path:
        """Return the name of a file for a moment; the nonce in it keeps it from being anybody else's."""
        return self.path.with_name(f"{self.path.name}.{self.nonce}.{what}")

    def see(self, line: int, data: bytes, *, header: bool = False) -> None:
        """Compare an input line with what is known of it, or note it.

        Raises:
            OptionsError: the line is finished and has changed since.
        """
        digest = self._digests.unlike(line, data)
        if digest is None:
            return
        if self._digests.knows(line) and (header or line in self.done or line in self.sending or line in self.spilled):
            what = "the header" if header else f"line {line}, which is finished,"
            hint = "give the input as it was (lines may be added at its end), or another -o"
            raise OptionsError("-o", str(self.output), f"it belongs to another input: {what} has changed", hint)
        self._digests.note(line, digest)

    async def intend(self, line: int) -> None:
        """Put on the disk that a request is about to be sent; requests that ask together share one sync.

        Raises:
            StoreError: the journal cannot be written.
        """
        await self._intents.put(line)
        self.sending.add(line)

    def unsend(self, line: int) -> None:
        """Note that a request was not sent after all, or was refused, so that it may be sent again."""
        self.sending.discard(line)
        self.settled.discard(line)
        self.spilled.discard(line)
        if not self._intents.drop(line):
            self.file.append({"unsent": [line]})

    def spill(self, line: int, result: bytes) -> None:
        """Keep a result until its place in the output comes."""
        self.flush()
        self.spilled.put(line, result)

    def unspill(self, line: int) -> bytes:
        """Return a kept result, whose place has come."""
        return self.spilled.take(line)

    def flush(self) -> None:
        """Hand everything that waits to the system; a kill cannot take it any more.

        Raises:
            StoreError: it cannot be written.
        """
        self._digests.flush()
        self._intents.flush()

    def tidy(self) -> None:
        """Note what is settled, and write the journal anew without what that makes idle, in one step.

        Call it when the output is on the disk.
        """
        self.flush()
        settled = self._settle()
        if (self.spilled.used or len(self.sending)) and replaces_open_files():
            self.file.replace(self._lasting(settled), self.scratch("journal"))
            self.spilled.clear()
        elif settled:
            self.file.write(settled)

    def close(self) -> None:
        """Let the lock go."""
        self.file.close()

    def _begin(self, begun: Mapping[str, str]) -> str:
        nonce = secrets.token_hex(16)
        self.file.write(encode(Header(nonce=nonce, begun=dict(begun))) + b"\n")
        return nonce

    def _load(self, history: History, begun: Mapping[str, str]) -> str:
        history.check_whole(self.output, self.path)
        history.check_options(begun)
        # What a kill or a power cut tore off protects nothing: it was to be whole before the next step was taken.
        self.file.cut(history.end)
        if not self.output.exists() and (len(history.sending) or history.digests):
            allowed = "the output of the run that its journal tells of"
            reason = f"it is gone; to begin again, remove {self.path.name} too"
            raise OptionsError("-o", str(self.output), allowed, reason)
        return history.nonce

    def _settle(self) -> bytes:
        """Return the record of all settled lines, b"" when there is none."""
        for lines in (self.unsafe, self.sending):
            for line in lines:
                if line in self.done:
                    self.settled.add(line)
        if not len(self.settled):
            return b""
        return encode({"settled": base64.b64encode(self.settled.packed()).decode()}) + b"\n"

    def _lasting(self, settled: bytes) -> Iterator[bytes]:
        """Yield the records that still tell something."""
        for _, record in records(self.file.fd):
            waiting = waiting_line(record)
            if record.startswith((DIGESTS, HEADER)) or (waiting and waiting not in self.done):
                yield record
        open_lines = [line for line in self.sending if line not in self.done]
        if open_lines:
            yield encode({"sending": open_lines}) + b"\n"
        yield settled
