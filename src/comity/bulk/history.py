"""History: what the records of a journal tell, read without touching the file."""

from __future__ import annotations

import base64
import os
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from comity.bulk.bitmap import Bitmap
from comity.bulk.output import LineNumber
from comity.bulk.record_file import REPAIR
from comity.errors import OptionsError

VERSION = 1
_MOST_SKIPPED = 10_000_000
"""Lines without a digest in a row, blank or within a record, beyond which a record of digests is none of ours."""
DIGESTS, FINISHED, HEADER = b'{"from":', b'{"finished":', b'{"comity":'

_KEY = "--idempotency-key"
_BEGIN_AGAIN = "to begin again, remove the output and its .comity file"
_WHY = {_KEY: "; with another, or none, rows in flight could be carried out twice"}


class Header(msgspec.Struct, kw_only=True):
    """The first record: whose journal it is, and the options that turn lines into requests."""

    comity: str = "journal"
    version: int = VERSION
    nonce: str
    begun: dict[str, str] = {}


class _Line(msgspec.Struct):
    line: LineNumber


class _Record(msgspec.Struct):
    start: LineNumber = msgspec.field(default=1, name="from")
    digests: str = ""
    sending: list[LineNumber] = []
    unsent: list[LineNumber] = []
    settled: str = ""
    finished: _Line | None = None


_decode_header = msgspec.json.Decoder(Header).decode
_decode = msgspec.json.Decoder(_Record).decode


class History:
    """The state that an earlier run left.

    Args:
        fd: the journal, open for reading; an empty one has no history.

    Attributes:
        nonce: random text of the journal; "" when it is none of ours.
        begun: option -> value of the run that began it, for those that were given.
        digests: line -> digest of its bytes, 0 where none is known.
        sending: lines that were about to be sent, and whose outcome the output has to tell.
        settled: lines that must not be sent twice and whose result was safe in the output.
        spilled: line -> place and size of its result, for results that wait for their turn.
        end: size of the whole records, bytes; what is behind was torn off.
        damaged: number of a record that is none and was not torn off, or stands behind one that was; 0 for none.
    """

    def __init__(self, fd: int) -> None:
        self.nonce, self.begun, self.damaged = "", dict[str, str](), 0
        self.digests = array("Q")
        self.sending, self.settled = Bitmap(), Bitmap()
        self.spilled: dict[int, tuple[int, int]] = {}
        found = records(fd)
        _, first = next(found, (0, b""))
        try:
            header = _decode_header(first)
        except msgspec.DecodeError:
            return
        if header.comity != "journal" or header.version != VERSION:
            return
        self.nonce, self.begun, self.end = header.nonce, header.begun, len(first)
        torn = False
        for number, (place, data) in enumerate(found, 2):
            record = _whole(data)
            if record is not None and not torn and self._apply(record, place, len(data)):
                self.end = place + len(data)
            elif record is None and _is_torn(data):
                torn = True
            else:
                self.damaged = self.damaged or number
                return

    def check_whole(self, output: Path, path: Path) -> None:
        """Refuse a file that is no journal, or one that lacks what stood in it.

        Raises:
            OptionsError: with the reason.
        """
        if not self.nonce:
            raise OptionsError("-o", str(output), "an output with a journal of this version", f"{path} is none")
        if self.damaged:
            reason = f"record {self.damaged} of {path.name} is damaged"
            raise OptionsError("-o", str(output), reason=reason, hint=REPAIR)

    def check_options(self, given: Mapping[str, str]) -> None:
        """Compare the options of this run with those of the one that is to go on.

        Raises:
            OptionsError: one differs, so that rows would be other requests, or be sent twice.
        """
        for option in dict.fromkeys((*self.begun, *given)):
            was, now = self.begun.get(option), given.get(option)
            if was == now or (option == _KEY and was and now and was.lower() == now.lower()):
                continue
            begun = f"the run that is to go on was begun with {was!r}" if was else "the run was begun without it"
            raise OptionsError(option, now, hint=_BEGIN_AGAIN, reason=begun + _WHY.get(option, ""))

    def _apply(self, record: _Record, place: int, size: int) -> bool:
        """Take a record over; return whether it can be one."""
        try:
            digests = array("Q", base64.b64decode(record.digests, validate=True))
            settled = base64.b64decode(record.settled, validate=True)
        except ValueError:
            return False
        if digests:
            end = record.start + len(digests)
            if record.start > len(self.digests) + _MOST_SKIPPED:
                return False
            if end > len(self.digests):
                self.digests.frombytes(bytes(8 * (end - len(self.digests))))
            self.digests[record.start : end] = digests
        for line in record.sending:
            self.sending.add(line)
        for line in record.unsent:
            self.sending.discard(line)
            self.settled.discard(line)
            self.spilled.pop(line, None)
        if settled:
            self.settled = Bitmap.unpacked(settled)
        if record.finished is not None:
            self.spilled[record.finished.line] = (place + len(FINISHED), size - len(FINISHED) - 2)
        return True


def _whole(data: bytes) -> _Record | None:
    try:
        return _decode(data) if data.endswith(b"\n") else None
    except msgspec.DecodeError:
        return None


def _is_torn(data: bytes) -> bool:
    """Return whether this may be what a kill left of a record, or, with its NULs, a power cut."""
    return not data.endswith(b"\n") or b"\0" in data


def records(fd: int) -> Iterator[tuple[int, bytes]]:
    """Yield the place of each record and its bytes, line end included."""
    place = 0
    with open(os.dup(fd), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.seek(0)
        for data in file:
            yield place, data
            place += len(data)


def waiting_line(record: bytes) -> int:
    """Return the line whose result a record keeps, 0 when it keeps none."""
    finished = _decode(record).finished if record.startswith(FINISHED) else None
    return finished.line if finished is not None else 0
