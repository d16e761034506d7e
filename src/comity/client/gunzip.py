"""Gunzip: undo gzip in steps of bounded size and work, members in a row as one stream (RFC 1952 section 2.2)."""

from __future__ import annotations

import zlib

STEP = 256 * 1024
"""Most bytes that one step returns."""

_PIECE = 8 * 1024  # a member's end copies what is left of its piece
_MEMBERS = 256


class Gunzip:
    """A gzip stream, undone step by step.

    Each step returns a bounded amount after bounded work, so neither a small stream that unpacks to a huge one nor one
    of a great many empty members takes memory or stops the event loop. Zeros between and after members are padding.

    Attributes:
        members: begun so far.
    """

    __slots__ = ("_at", "_data", "_full", "_member", "members")

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None
        self._data, self._at = b"", 0
        self._full = False
        self.members = 0

    @property
    def pending(self) -> bool:
        """Whether `feed(b"")` may have more to give."""
        return self._full or self._at < len(self._data)

    @property
    def whole(self) -> bool:
        """Whether the stream may end here: before its first byte, or after a member."""
        return self._member is None or self._member.eof

    def feed(self, data: bytes) -> bytes:
        """Take what follows and return what the next step unpacks.

        Raises:
            zlib.error: the stream is no gzip or is damaged.
        """
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0
        out = bytearray()
        last = self.members + _MEMBERS
        while self.pending and len(out) < STEP and self.members < last:
            piece = self._data[self._at : self._at + _PIECE]
            if self.whole:
                padding = 0 if self._member is None else len(piece) - len(piece.lstrip(b"\0"))
                self._at += padding
                if padding < len(piece):
                    self._member = zlib.decompressobj(wbits=31)
                    self.members += 1
                continue
            out += self._unpack(piece, STEP - len(out))
        return bytes(out)

    def finish(self) -> None:
        """Check that the stream is whole.

        Raises:
            EOFError: it ends within a member.
        """
        if not self.whole:
            raise EOFError("the gzip stream ends before its end mark")

    def _unpack(self, piece: bytes, most: int) -> bytes:
        member = self._member
        assert member is not None
        out = member.decompress(piece, most)
        self._full = len(out) == most and not member.eof
        self._at += len(piece) - len(member.unused_data if member.eof else member.unconsumed_tail)
        return out
