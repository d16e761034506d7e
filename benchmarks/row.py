"""Row: one figure of a benchmark as a line of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.paired import ENOUGH, Figure

HEADINGS = ("figure", "ours", "peer or limit", "ratio", "target", "met")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Args:
        what: the figure; a name of two or more words.
        ours, peer: the two things compared, each with its unit.
        ratio: ours to the peer.
        target: what the ratio (or the figure itself) is to reach; empty for what is printed beside.
        met: whether it does; None without a target.
    """

    what: str
    ours: str = ""
    peer: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None

    @classmethod
    def paired(
        cls,
        what: str,
        ours: Figure,
        peer: Figure,
        ratio: Figure,
        unit: str,
        *,
        most: float | None = None,
        least: float | None = None,
    ) -> Row:
        """Return the row of a paired run; the target is a ratio of at `most` or at `least` so much, or none."""
        target = f"<= {most:g}x" if most is not None else f">= {least:g}x" if least is not None else ""
        met = ratio.median <= most if most is not None else ratio.median >= least if least is not None else None
        return cls(
            what=what,
            ours=f"{digits(ours.median)} {unit}",
            peer=f"{digits(peer.median)} {unit}",
            ratio=spread(ratio),
            target=target,
            met=met,
        )

    @classmethod
    def absent(cls, what: str, why: str = "not installed") -> Row:
        """Return the row of something that could not be measured."""
        return cls(what=what, peer=why)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of HEADINGS."""
        word = "" if self.met is None else "yes" if self.met else "NO"
        return (self.what, self.ours, self.peer, self.ratio, self.target, word)


def table(rows: Iterable[Row]) -> str:
    """Return the rows as aligned text."""
    lines: list[Sequence[str]] = [HEADINGS, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(_line(line, widths) for line in lines)


def verdict(rows: Sequence[Row]) -> str:
    """Return how many targets were met, and which were not."""
    missed = [row.what for row in rows if row.met is False]
    counted = sum(row.met is not None for row in rows)
    return f"{counted - len(missed)} of {counted} targets met" + (f"; missed: {'; '.join(missed)}" if missed else "")


def digits(number: float) -> str:
    """Return a number with three significant digits and no exponent."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def spread(ratio: Figure, places: int = 2) -> str:
    """Return a ratio with its spread; one that is wider than wanted carries a question mark, one of a single run none."""
    if ratio.count == 1:
        return f"{ratio.median:.{places}f}"
    return f"{ratio.median:.{places}f} ± {ratio.spread:.{places - 2}%}{'?' if ratio.spread > ENOUGH else ''}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
