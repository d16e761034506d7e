"""Decoding: content codings undone while the bytes arrive, complete or an error, in bounded memory.

A gzip stream ends with a checksum and a length (RFC 1952 section 2.3.1); one that is cut before them, or whose
checksum differs, is damaged even when the framing around it was whole. The cap counts decoded bytes and is checked
after every bounded step, so a bomb costs one step, not its size. It holds for the coded bytes too, with room for their
frames: an endless stream that decodes to nothing would never reach it otherwise.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from comity.client.codings import BROTLI, ZSTD, Brotli, Damaged, Stepwise, Undecodable, Zstd, check_cap
from comity.client.gunzip import STEP, Gunzip

__all__ = ["ACCEPTED", "Body", "Damaged", "Decoder", "Flow", "Undecodable"]

ACCEPTED = "gzip, deflate" + (", br" if BROTLI else "") + (", zstd" if ZSTD else "")
"""What the client asks for: only what can be undone in this interpreter."""

_LAYERS = 4
_FEW = 4096  # members of a gzip stream that may be tiny; of more ...
_SHORT = 64  # ... each takes so many bytes on average, else undoing them is more work than data
_ROOM = 64 * 1024  # bytes that the frames of a coded body may take beyond the body


class Decoder(Protocol):
    """One coding, undone step by step."""

    def feed(self, data: bytes) -> bytes:
        """Return what `data` decodes to; raise Undecodable or Damaged."""
        ...

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield the same in pieces of bounded size; each has to be taken before more is fed."""
        ...

    def end(self) -> None:
        """Check that the stream is complete; raise Damaged when it is not."""
        ...


class Body:
    """Collects an answer's body: undoes its codings and holds it to its cap.

    Args:
        codings: the names of the codings in the order of their application, by commas; None for none.
        cap: most bytes of the decoded body, None for no cap.
    """

    __slots__ = ("_cap", "_chain", "_coded", "_parts", "size")

    def __init__(self, codings: str | None, cap: int | None) -> None:
        self._cap = cap
        self._chain = _chain(codings, cap) if codings else []
        self._parts: list[bytes] = []
        self._coded = 0
        self.size = 0

    def feed(self, data: bytes) -> None:
        """Take bytes as they came.

        Raises:
            Damaged: the coded stream fails its checksum.
            Undecodable: it is no such stream, its coding is not known, or the body, decoded or coded, is over its cap.
        """
        if self._chain:
            self._coded += len(data)
            if self._cap is not None and self._coded > self._cap + self._cap // 8 + _ROOM:
                raise Undecodable(f"the coded body is far larger than max_body={self._cap}")
        for decoder in self._chain:
            data = decoder.feed(data)
        self.size += len(data)
        check_cap(self.size, self._cap)
        self._parts.append(data)

    def end(self) -> bytes:
        """Return the whole body.

        Raises:
            Damaged: a coded stream is not complete.
        """
        for decoder in self._chain:
            decoder.end()
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Flow:
    """Undoes an answer's codings for whoever takes the pieces one by one: no piece is large, and nothing is kept.

    Args:
        codings: the names of the codings in the order of their application, by commas; None for none.
    """

    __slots__ = ("_chain",)

    def __init__(self, codings: str | None) -> None:
        self._chain = _chain(codings, None) if codings else []

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Return what `data` decodes to; take all of it before more is given.

        Raises:
            Damaged, Undecodable: as for `Body.feed`.
        """
        pieces = iter((data,))
        for decoder in self._chain:
            pieces = _through(decoder, pieces)
        return pieces

    def end(self) -> None:
        """Check that the body is complete.

        Raises:
            Damaged: a coded stream is not.
        """
        for decoder in self._chain:
            decoder.end()


def _through(decoder: Decoder, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from decoder.steps(piece)


def _chain(codings: str, cap: int | None) -> list[Decoder]:
    """Return the decoders in the order of undoing."""
    names = [name.strip().lower() for name in codings.split(",") if name.strip()]
    if len(names) > _LAYERS:
        raise Undecodable(f"the answer wears {len(names)} content codings, at most {_LAYERS} are undone")
    chain: list[Decoder] = []
    for name in reversed(names):
        if name in {"gzip", "x-gzip"}:
            chain.append(_Gzip(cap))
        elif name == "deflate":
            chain.append(_Deflate(cap))
        elif name == "br" and BROTLI:
            chain.append(Brotli(cap))
        elif name == "zstd" and ZSTD:
            chain.append(Zstd(cap))
        elif name != "identity":
            chain.append(_Unknown(name))
    return chain


class _Unknown:
    """A coding that cannot be undone: coded bytes are never given out as if they were the content."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def feed(self, data: bytes) -> bytes:
        if data:
            raise Undecodable(f"its coding {self._name[:40]!r} is none of those that can be undone ({ACCEPTED})")
        return data

    def steps(self, data: bytes) -> Iterator[bytes]:
        yield self.feed(data)

    def end(self) -> None:
        """Nothing came, so nothing is missing."""


class _Gzip(Stepwise):
    """RFC 1952: one or more members; zero padding after the last is tolerated."""

    __slots__ = ("_stream", "_taken")

    def __init__(self, cap: int | None) -> None:
        super().__init__(cap)
        self._stream = Gunzip()
        self._taken = 0

    def steps(self, data: bytes) -> Iterator[bytes]:
        self._taken += len(data)
        yield self._step(data)
        while self._stream.pending:
            if self._stream.members > _FEW + self._taken // _SHORT:
                raise Undecodable(f"the gzip stream is made of {self._stream.members} tiny members")
            yield self._step(b"")

    def _step(self, data: bytes) -> bytes:
        with _told():
            return self._stream.feed(data)

    def end(self) -> None:
        if not self._stream.whole:
            raise Damaged("the gzip stream ends before its checksum")


class _Deflate(Stepwise):
    """Deflate in the zlib frame (RFC 9110 section 8.4.1.2), or bare as some servers send it."""

    __slots__ = ("_stream",)

    def __init__(self, cap: int | None) -> None:
        super().__init__(cap)
        self._stream: zlib._Decompress | None = None

    def steps(self, data: bytes) -> Iterator[bytes]:
        if not data:
            return
        if self._stream is None:
            # The low half of a zlib frame's first byte is 8 (RFC 1950 section 2.2); a bare block never starts so.
            self._stream = zlib.decompressobj(15 if data[0] & 0x0F == 8 else -15)
        if self._stream.eof:
            raise Undecodable("bytes follow the end of the deflate stream")
        yield from _inflate(self._stream, data)
        if self._stream.unused_data:
            raise Undecodable("bytes follow the end of the deflate stream")

    def end(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise Damaged("the deflate stream is cut")


def _inflate(stream: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Decompress in steps of bounded size, so that the cap is seen before memory is."""
    while True:
        with _told():
            step = stream.decompress(data, STEP)
        yield step
        data = stream.unconsumed_tail
        if stream.eof or (not data and len(step) < STEP):
            return


@contextmanager
def _told() -> Iterator[None]:
    """Tell a wrong checksum from bytes that are no such coding."""
    try:
        yield
    except zlib.error as error:
        if "check" in str(error) and "header" not in str(error):
            raise Damaged("the checksum of the coded stream differs") from None
        raise Undecodable(f"the coded stream cannot be decoded ({error})") from None
