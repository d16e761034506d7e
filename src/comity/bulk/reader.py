"""Reader: the rows of all inputs, in order, in constant memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from comity.bulk.lines import MAX_LINE, Line, LineSplitter
from comity.bulk.rows import Invalid, Row, RowParser
from comity.bulk.source import Source
from comity.bulk.table import Record, Table
from comity.errors import OptionsError

Admit = Callable[[Record], bool]
"""Asked for each record in order; False leaves it unread (it is finished already). The answer for a header is ignored."""

_TABLES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}


def everything(_record: Record) -> bool:
    """Leave nothing out."""
    return True


class Reader:
    """Read requests from inputs of any supported form.

    A line is a JSON object with a url, a URL in quotes or a bare URL; `.csv` and `.tsv` files are tables. Standard
    input and files of other names show their form by their first line. Blank lines are skipped but counted.

    Args:
        inputs: paths; "-" is standard input.
        parser: makes the rows.
        admit: decides per record whether it is to be parsed at all.
        max_line: longest line in bytes.
        delimiter: what separates the columns of a table, when it is not what the input's name says.

    Raises:
        OptionsError: an input cannot be opened.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        parser: RowParser,
        *,
        admit: Admit = everything,
        max_line: int = MAX_LINE,
        delimiter: str | None = None,
    ) -> None:
        self.sources = [Source(name) for name in inputs]
        self.parser, self.admit, self.max_line, self.delimiter = parser, admit, max_line, delimiter
        self.skipped = 0
        """Lines so far that are no row of their own: blank, a header, or within a table's record."""
        self._waiting = deque(self.sources)
        self._source: Source | None = None
        self._splitter = LineSplitter(limit=max_line)
        self._table: Table | None = None
        self._sniffed = False
        self._lines: deque[Line] = deque()

    @property
    def rereadable(self) -> bool:
        """Whether all inputs can be read a second time."""
        return all(source.rereadable for source in self.sources)

    @property
    def ended(self) -> bool:
        """Whether everything was read."""
        return self._source is None and not self._waiting and not self._lines

    @property
    def lines(self) -> int:
        """Lines looked at so far, of all inputs."""
        return self._splitter.next - 1 - len(self._lines)

    async def take(self, limit: int = 64) -> list[Row | Invalid]:
        """Look at up to `limit` more lines and return the rows among them; `ended` tells whether that is all.

        Raises:
            OSError, EOFError, zlib.error: an input cannot be read to its end.
            OptionsError: an input is of no known form.
        """
        if not self._lines and not self.ended:
            await self._read()
        rows: list[Row | Invalid] = []
        for _ in range(min(limit, len(self._lines))):
            record = self._record(self._lines.popleft())
            if record is not None:
                self._add(rows, record)
        if not self._lines and self._source is None and self._table is not None:
            # The input ended; a record left open ends with it.
            record = self._table.finish()
            if record is not None:
                self.skipped -= 1
                self._add(rows, record)
            self._table = None
        return rows

    def close(self) -> None:
        """Let all files go."""
        for source in self.sources:
            source.close()

    async def _read(self) -> None:
        """Fill the lines from the next block."""
        if self._source is None:
            self._source = self._waiting.popleft()
            self._splitter = LineSplitter(limit=self.max_line, first=self._splitter.next)
            self._table, self._sniffed = None, False
        block = await self._source.read()
        if block:
            self._lines.extend(self._splitter.feed(block))
        else:
            self._lines.extend(self._splitter.finish())
            self._source = None

    def _record(self, line: Line) -> Record | None:
        if not self._sniffed:
            if not line.data.strip():
                self.skipped += 1
                return None
            self._sniff(line)
        record: Record | None = None
        if self._table is not None:
            record = self._table.feed(line)
        elif line.data.strip():
            record = Record(line.number, line.data, too_long=line.too_long)
        self.skipped += record is None
        return record

    def _add(self, rows: list[Row | Invalid], record: Record) -> None:
        admitted = self.admit(record)
        if record.header or not admitted:
            self.skipped += record.header
            return
        number = record.line
        row: Row | Invalid
        if record.too_long:
            row = Invalid(line=number, message=f"line {number} is longer than {self.max_line} bytes")
        elif self._table is not None:
            row = self._table.parse(record)
        else:
            row = self.parser.parse(number, record.data)
        if len(self.sources) > 1:
            row.input = self._current.name
        rows.append(row)

    @property
    def _current(self) -> Source:
        """The input whose lines are looked at: the next one is opened when all of them are done."""
        return self.sources[-len(self._waiting) - 1]

    def _sniff(self, line: Line) -> None:
        """Decide by the name or the first line what form the input has."""
        self._sniffed = True
        source = self._current
        delimiter = self.delimiter or _TABLES.get(source.suffix)
        text = line.data.lstrip()
        if delimiter is None:
            if text.rstrip() == b"[" or text.startswith((b"[{", b"[ {")):
                hint = f"jq -c '.[]' {source.name} makes that of a JSON array"
                raise OptionsError("INPUT", source.name, "one object or URL a line", hint)
            if (
                any(option for option, _ in self.parser.columns.values())
                and not text.startswith((b"{", b'"'))
                and b"://" not in text
            ):
                delimiter = "\t" if b"\t" in text else ","
        if delimiter is not None:
            self._table = Table(source.name, delimiter, self.parser)
