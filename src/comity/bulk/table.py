"""Table: CSV and TSV records out of lines (RFC 4180); the first record names the columns."""

from __future__ import annotations

import csv
from typing import NamedTuple

from comity import redact
from comity.bulk.lines import MAX_LINE, Line
from comity.bulk.rows import Invalid, Row, RowParser
from comity.errors import OptionsError

_LONG = 100
_DELIMITERS = (";", "\t", "|", ",")
_INCOMPLETE = "unexpected end of data"


class Record(NamedTuple):
    """What makes one row: a line, or the lines of a table's record.

    Attributes:
        line: number of its first line.
        data: its bytes.
        header: whether it names the columns and is no row.
        too_long: whether it is over the limit.
    """

    line: int
    data: bytes
    header: bool = False
    too_long: bool = False


class Table:
    """Join lines to records, and read records by the names of the columns.

    A quoted value may hold line breaks. The record's number is that of its first line.

    Args:
        name: the input's name, for messages.
        delimiter: one character.
        parser: makes the rows.
    """

    def __init__(self, name: str, delimiter: str, parser: RowParser) -> None:
        self.name, self.delimiter, self.parser = name, delimiter, parser
        self.columns: list[str] | None = None
        self._open: list[Line] = []
        self._size = self._quotes = 0

    def feed(self, line: Line) -> Record | None:
        """Return the record that this line completes."""
        if not self._open and not line.data.strip() and not line.too_long:
            return None
        continued = bool(self._open)
        self._open.append(line)
        # Only a quote can close a quoted value, so other lines of it need no look.
        self._size += len(line.data) + 1
        if self._size > MAX_LINE and continued:
            # What follows cannot be told from the value any more, and must not be sent as rows.
            reason = f"a quoted value that begins in line {self._open[0].number} has no end within {MAX_LINE:,} bytes"
            raise OptionsError("INPUT", self.name, reason=reason)
        self._quotes += line.data.count(b'"')
        if line.too_long or (self._may_end(line, continued=continued) and self._whole()):
            return self._record()
        return None

    def finish(self) -> Record | None:
        """Return what is left when the input ends within a quoted value."""
        return self._record() if self._open else None

    def parse(self, record: Record) -> Row | Invalid:
        """Return a record's row."""
        assert self.columns is not None
        line = record.line
        try:
            cells = self._cells(record.data)
        except UnicodeDecodeError:
            return Invalid(line=line, message=f"line {line} is not UTF-8")
        except csv.Error as error:
            reason = "a quoted value has no end" if str(error) == _INCOMPLETE else str(error)
            return Invalid(line=line, message=f"line {line}: {reason}")
        if len(cells) > len(self.columns):
            extra = f"{len(cells)} values for {len(self.columns)} columns"
            return Invalid(line=line, message=f"line {line}: {extra}; quote a value that holds {self.delimiter!r}")
        return self.parser.from_columns(line, len(record.data), dict(zip(self.columns, cells, strict=False)))

    def _may_end(self, line: Line, *, continued: bool) -> bool:
        """Return whether it is worth looking; a long record only where its quotes are even, or it would take for ever."""
        if not continued:
            return True
        return b'"' in line.data and (len(self._open) < _LONG or self._quotes % 2 == 0)

    def _whole(self) -> bool:
        try:
            self._cells(b"\n".join(line.data for line in self._open))
        except csv.Error as error:
            return str(error) != _INCOMPLETE
        except UnicodeDecodeError:
            return True
        return True

    def _record(self) -> Record:
        lines, self._open = self._open, []
        self._size = self._quotes = 0
        data = b"\n".join(line.data for line in lines)
        too_long = lines[-1].too_long
        header = self.columns is None
        if header:
            self._name_columns(data)
        return Record(lines[0].number, data, header, too_long)

    def _cells(self, data: bytes) -> list[str]:
        # Line breaks within the record are part of a quoted value, so they are handed over as one piece.
        return next(csv.reader([data.decode()], delimiter=self.delimiter, strict=True), [])

    def _name_columns(self, data: bytes) -> None:
        try:
            names = [name.strip() for name in self._cells(data)]
        except (csv.Error, UnicodeDecodeError) as error:
            raise OptionsError("INPUT", self.name, "a table whose first line names the columns", str(error)) from None
        needed = self.parser.columns
        missing = [name for name in needed if name not in names]
        if missing:
            raise self._without(missing[0], *needed[missing[0]], names)
        self.columns = names

    def _without(self, column: str, option: str, value: str, names: list[str]) -> OptionsError:
        """Return the complaint about a column that is not there."""
        have = f"{self.name} has the columns {', '.join(names)}"
        others = [other for other in _DELIMITERS if len(names) == 1 and other in names[0]]
        if others:
            shown = "a tab" if others[0] == "\t" else repr(others[0])
            return OptionsError(
                "INPUT", self.name, reason=f"its columns seem to be separated by {shown}; give --delimiter"
            )
        if not option:
            hint = "or --url 'https://api.example.com/{id}' with the name of a column in braces"
            return OptionsError("INPUT", self.name, "a table with a column named url", hint, reason=have)
        return OptionsError(option, redact.text(value), reason=f"{have}, not {column!r}")
