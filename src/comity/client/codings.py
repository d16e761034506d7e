"""Codings: what the body of an answer may be coded with, each undone in steps of bounded size.

A gzip stream ends with a checksum and a length (RFC 1952 section 2.3.1); one that is cut before them, or whose checksum
differs, is damaged even when the framing around it was whole. br and zstd need optional libraries (`comity[codings]`).
"""

from __future__ import annotations

import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from comity.client.gunzip import STEP, Gunzip

_FEW = 4096  # parts of a stream that may be tiny; of more ...
_SHORT = 64  # ... each takes so many bytes on average, else undoing them is more work than data
_WINDOW_LOG = 23  # 8 MB, the most that zstd in HTTP may ask for (RFC 9659 section 3)


class Damaged(Exception):
    """The coded stream is cut or fails its checksum: the transfer went wrong."""


class Undecodable(Exception):
    """The bytes are not what their Content-Encoding says, or decode to more than is allowed."""


def check_cap(size: int, cap: int | None) -> None:
    """Raise Undecodable when a body of `size` bytes is over its cap."""
    if cap is not None and size > cap:
        raise Undecodable(f"the body is larger than max_body={cap}")


class Coding(ABC):
    """One coding, undone step by step.

    Args:
        cap: most bytes that `feed` may return at once, None for no cap.
    """

    __slots__ = ("_cap",)

    def __init__(self, cap: int | None) -> None:
        self._cap = cap

    @abstractmethod
    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to in pieces of bounded size; each has to be taken before more is fed.

        Raises:
            Damaged, Undecodable: it cannot be decoded.
        """

    @abstractmethod
    def end(self) -> None:
        """Check that the stream is complete; raise Damaged when it is not."""

    def feed(self, data: bytes) -> bytes:
        """Return what `data` decodes to; raise Undecodable or Damaged."""
        out = bytearray()
        for step in self.steps(data):
            out += step
            check_cap(len(out), self._cap)
        return bytes(out)


def coding(name: str, cap: int | None) -> Coding:
    """Return the coding of a name; one that is not known refuses the first byte."""
    return _CODINGS[name](cap) if name in _CODINGS else _Unknown(name, cap)


class _Gzip(Coding):
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
            _check_parts(self._stream.members, self._taken, "gzip stream is made of {} tiny members")
            yield self._step(b"")

    def _step(self, data: bytes) -> bytes:
        with _told():
            return self._stream.feed(data)

    def end(self) -> None:
        if not self._stream.whole:
            raise Damaged("the gzip stream ends before its checksum")


class _Deflate(Coding):
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


class _Brotli(Coding):
    """RFC 7932: one stream, nothing after it."""

    __slots__ = ("_begun", "_library", "_stream")

    def __init__(self, cap: int | None) -> None:
        super().__init__(cap)
        self._begun = False
        self._library: Any = import_module("brotli")
        self._stream: Any = self._library.Decompressor()

    def steps(self, data: bytes) -> Iterator[bytes]:
        if not data:
            return
        self._begun = True
        while True:
            try:
                step = self._stream.process(data, output_buffer_limit=STEP)
            except self._library.error:
                raise Undecodable("the br stream cannot be decoded, or bytes follow its end") from None
            yield step
            data = b""
            if self._stream.is_finished() or (not step and self._stream.can_accept_more_data()):
                return

    def end(self) -> None:
        if self._begun and not self._stream.is_finished():
            raise Damaged("the br stream is cut")


class _Zstd(Coding):
    """RFC 8878: one or more frames in a row."""

    __slots__ = ("_frames", "_library", "_stream", "_taken")

    def __init__(self, cap: int | None) -> None:
        super().__init__(cap)
        self._frames = 0
        self._library: Any = import_module(_ZSTD or "backports.zstd")
        self._stream: Any = None
        self._taken = 0

    def steps(self, data: bytes) -> Iterator[bytes]:
        self._taken += len(data)
        while data or not (self._stream is None or self._stream.needs_input):
            if self._stream is None:
                self._stream = self._frame()
            try:
                step = self._stream.decompress(data, STEP)
            except self._library.ZstdError as error:
                if "checksum" in str(error):
                    raise Damaged("the checksum of the zstd stream differs") from None
                raise Undecodable(f"the zstd stream cannot be decoded ({error})") from None
            data = b""
            if self._stream.eof:
                data, self._stream = self._stream.unused_data, None
            yield step

    def _frame(self) -> Any:
        self._frames += 1
        _check_parts(self._frames, self._taken, "zstd stream is made of {} tiny frames")
        window = {self._library.DecompressionParameter.window_log_max: _WINDOW_LOG}
        return self._library.ZstdDecompressor(options=window)

    def end(self) -> None:
        if self._stream is not None:
            raise Damaged("the zstd stream is cut")


class _Unknown(Coding):
    """A coding that cannot be undone: coded bytes are never given out as if they were the content."""

    __slots__ = ("_name",)

    def __init__(self, name: str, cap: int | None) -> None:
        super().__init__(cap)
        self._name = name

    def steps(self, data: bytes) -> Iterator[bytes]:
        if data:
            raise Undecodable(f"its coding {self._name[:40]!r} is none of those that can be undone ({ACCEPTED})")
        return iter(())

    def end(self) -> None:
        """Nothing came, so nothing is missing."""


def _check_parts(parts: int, taken: int, said: str) -> None:
    if parts > _FEW + taken // _SHORT:
        raise Undecodable(f"the {said.format(parts)}")


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


def _zstd_module() -> str | None:
    """Return the name of the library that knows zstd: the standard one from Python 3.14 on."""
    parent, name = (
        ("compression", "compression.zstd") if sys.version_info >= (3, 14) else ("backports", "backports.zstd")
    )
    return name if find_spec(parent) and find_spec(name) else None


_ZSTD = _zstd_module()

_CODINGS: dict[str, Callable[[int | None], Coding]] = {"gzip": _Gzip, "x-gzip": _Gzip, "deflate": _Deflate}
"""What can be undone in this interpreter, by name."""

if find_spec("brotli"):
    _CODINGS["br"] = _Brotli
if _ZSTD:
    _CODINGS["zstd"] = _Zstd

ACCEPTED = ", ".join(name for name in _CODINGS if name != "x-gzip")
"""What the client asks for."""
