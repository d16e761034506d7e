"""Codings: br and zstd, undone in bounded steps where their optional libraries (`comity[codings]`) are installed."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from comity.client.gunzip import STEP

_FEW = 4096  # frames of a zstd stream that may be tiny; of more ...
_SHORT = 64  # ... each takes so many bytes on average
_WINDOW_LOG = 23  # 8 MB, the most that zstd in HTTP may ask for (RFC 9659 section 3)


def _zstd_module() -> str | None:
    """Return the name of the library that knows zstd: the standard one from Python 3.14 on."""
    parent, name = (
        ("compression", "compression.zstd") if sys.version_info >= (3, 14) else ("backports", "backports.zstd")
    )
    return name if find_spec(parent) and find_spec(name) else None


BROTLI = find_spec("brotli") is not None
ZSTD = _zstd_module()


class Damaged(Exception):
    """The coded stream is cut or fails its checksum: the transfer went wrong."""


class Undecodable(Exception):
    """The bytes are not what their Content-Encoding says, or decode to more than is allowed."""


def check_cap(size: int, cap: int | None) -> None:
    """Raise Undecodable when a body of `size` bytes is over its cap."""
    if cap is not None and size > cap:
        raise Undecodable(f"the body is larger than max_body={cap}")


class Stepwise(ABC):
    """A coding whose library decodes in steps of bounded size."""

    __slots__ = ("_cap",)

    def __init__(self, cap: int | None) -> None:
        self._cap = cap

    @abstractmethod
    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to in pieces of bounded size; raise Undecodable or Damaged."""

    def feed(self, data: bytes) -> bytes:
        """Return what `data` decodes to; raise Undecodable or Damaged."""
        out = bytearray()
        for step in self.steps(data):
            out += step
            check_cap(len(out), self._cap)
        return bytes(out)


class Brotli(Stepwise):
    """RFC 7932: one stream, nothing after it."""

    __slots__ = ("_begun", "_library", "_stream")

    def __init__(self, cap: int | None) -> None:
        super().__init__(cap)
        self._begun = False
        self._library: Any = import_module("brotli")
        self._stream: Any = self._library.Decompressor()

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to in pieces of bounded size; raise Undecodable or Damaged."""
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
        """Check that the stream is complete; raise Damaged when it is not."""
        if self._begun and not self._stream.is_finished():
            raise Damaged("the br stream is cut")


class Zstd(Stepwise):
    """RFC 8878: one or more frames in a row."""

    __slots__ = ("_frames", "_library", "_stream", "_taken")

    def __init__(self, cap: int | None) -> None:
        super().__init__(cap)
        self._frames = 0
        self._library: Any = import_module(ZSTD or "backports.zstd")
        self._stream: Any = None
        self._taken = 0

    def steps(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to in pieces of bounded size; raise Undecodable or Damaged."""
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
        if self._frames > _FEW + self._taken // _SHORT:
            raise Undecodable(f"the zstd stream is made of {self._frames} tiny frames")
        window = {self._library.DecompressionParameter.window_log_max: _WINDOW_LOG}
        return self._library.ZstdDecompressor(options=window)

    def end(self) -> None:
        """Check that the stream is complete; raise Damaged when it is not."""
        if self._stream is not None:
            raise Damaged("the zstd stream is cut")
