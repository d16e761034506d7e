"""Failures: why rows failed, grouped, with the first of each kind."""

from __future__ import annotations

import msgspec

from comity.bulk.results import Result

_SHOWN = 5
_MOST = 1000
_LONGEST = 200


class Failures:
    """The kinds of failure of a run: statuses and error types.

    Example:
        >>> Failures().text()
        ''
    """

    def __init__(self) -> None:
        self._kinds: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def add(self, result: Result) -> None:
        """Count a result that is not ok."""
        assert result.error is not msgspec.UNSET
        kind, message = result.error.type, result.error.message
        if kind == "StatusError":
            kind, message = str(result.status), ""
        self.note(kind, result.line, message)

    def note(self, kind: str, line: int, message: str = "") -> None:
        """Count a failure of some kind; `message` may begin with the line."""
        if kind not in self._kinds and len(self._kinds) >= _MOST:
            kind = "others"
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        if kind not in self._first:
            where, text = f"line {line}", message.split("\n", 1)[0][:_LONGEST]
            self._first[kind] = text if text.startswith(where) else f"{where}: {text}" if text else where

    def text(self) -> str:
        """Return the kinds, the most frequent first: "20 x ConnectFailed (first: line 5: ...), 1 x 404 (first: line 9)"."""
        kinds = sorted(self._kinds.items(), key=lambda item: -item[1])
        parts = [f"{number:,} x {kind} (first: {self._first[kind]})" for kind, number in kinds[:_SHOWN]]
        rest = sum(number for _, number in kinds[_SHOWN:])
        return ", ".join(parts) + (f", {rest:,} of {len(kinds) - _SHOWN} other kinds" if rest else "")
