r"""Lines: text that comes in pieces of bytes, as lines without their ends: \n, \r\n or \r."""

from __future__ import annotations

import codecs


class Lines:
    """The lines of one text.

    Args:
        charset: of the bytes, as `codecs` names it; what is none of it becomes U+FFFD. A byte order mark is left out.
    """

    def __init__(self, charset: str) -> None:
        self._decoder = codecs.getincrementaldecoder(charset)(errors="replace")
        self._parts: list[str] = []
        """Of the line that is not ended yet."""
        self._begun = self._after_cr = False

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that end within the next bytes."""
        return self._split(self._decoder.decode(data))

    def end(self) -> list[str]:
        """Return what is left when no more bytes come: the last line, if nothing ended it."""
        lines = self._split(self._decoder.decode(b"", final=True))
        return [*lines, "".join(self._parts)] if self._parts else lines

    def _split(self, text: str) -> list[str]:
        if not text:
            return []
        if not self._begun:
            self._begun, text = True, text.removeprefix("\ufeff")
        if self._after_cr:
            text = text.removeprefix("\n")
        self._after_cr = text.endswith("\r")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        *lines, rest = text.split("\n")
        if lines and self._parts:
            lines[0] = "".join((*self._parts, lines[0]))
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        return lines
