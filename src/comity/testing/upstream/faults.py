"""Paths that break: answers that never come, resets, cut bodies, bodies that drip."""

from __future__ import annotations

import gzip
from itertools import islice, repeat

from comity.testing.upstream.answers import Answer, End, chunk, chunked, head
from comity.testing.upstream.exchange import Exchange

_PROMISED = b'{"cut": "' + b"." * 55
_ZEROS = bytes(16 * 1024)
_AFTER = ("request", "headers", "body")


def silence(end: End) -> Answer:
    """Return an answer of no bytes that ends in `end`."""
    return Answer(None, b"", end=end)


def hang(exchange: Exchange) -> Answer:
    """Never finish: no answer at all, or `?after=headers|body` and then nothing."""
    return _cut_after(exchange.params.choice("after", _AFTER), End.HANG)


def reset(exchange: Exchange) -> Answer:
    """Send RST instead of an answer, or `?after=headers|body`, `?ms=` later so that the part before it arrives."""
    answer = _cut_after(exchange.params.choice("after", _AFTER), End.RESET)
    answer.gap = exchange.params.time("ms", "20" if answer.status else "0", "ms")
    return answer


def truncate(exchange: Exchange) -> Answer:
    """Answer 200 with a body that is not whole: `?kind=length|chunked|gzip|crc`."""
    match exchange.params.choice("kind", ("length", "chunked", "gzip", "crc")):
        case "length":
            return _cut_after("body", End.CLOSE)
        case "chunked":
            fields = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
            return Answer(200, head(200, fields), chunk(_PROMISED[:32]), end=End.CLOSE)
        case "gzip":
            return _gzipped(gzip.compress(_PROMISED + b'"}', mtime=0)[:-8])
        case _:
            packed = bytearray(gzip.compress(_PROMISED + b'"}', mtime=0))
            packed[-8] ^= 0xFF  # the first byte of the checksum (RFC 1952 2.3.1)
            return _gzipped(bytes(packed))


def slow_body(exchange: Exchange) -> Answer:
    """Send the head at once, then `?chunks=10` chunks of `?bytes=1`, each `?ms=100` after the one before."""
    params = exchange.params
    piece = b"." * params.whole("bytes", 1, low=1, high=1 << 20)
    pieces = repeat(piece, params.whole("chunks", 10))
    return chunked(200, "text/plain", pieces, gap=params.time("ms", "100", "ms"))


def endless(exchange: Exchange) -> Answer:
    """Send zeros in chunks for ever, as fast as the client reads, or until `?bytes=`."""
    pieces = repeat(_ZEROS)
    limit = exchange.params.get("bytes")
    if limit is None:
        return chunked(200, "application/octet-stream", pieces)
    size = exchange.params.whole("bytes", 0, high=1 << 40)
    full, part = divmod(size, len(_ZEROS))
    tail = [_ZEROS[:part]] if part else []
    return chunked(200, "application/octet-stream", (p for source in (islice(pieces, full), tail) for p in source))


def _cut_after(part: str, end: End) -> Answer:
    if part == "request":
        return silence(end)
    fields = [("Content-Type", "application/json"), ("Content-Length", str(len(_PROMISED)))]
    body = _PROMISED[:32] if part == "body" else b""
    return Answer(200, head(200, fields), body, end=end)


def _gzipped(packed: bytes) -> Answer:
    fields = [
        ("Content-Type", "application/json"),
        ("Content-Encoding", "gzip"),
        ("Content-Length", str(len(packed))),
    ]
    return Answer(200, head(200, fields), packed)
