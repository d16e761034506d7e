"""Read HTTP/1.1 requests from bytes (RFC 9112). Pure: bytes go in, heads and body pieces come out.

Written for a test server: it keeps a target and the header fields exactly as they came, because tests compare them,
and it refuses what could be read in two ways, such as a Content-Length beside a Transfer-Encoding, and what a server has
to refuse: a Host that is missing or not alone, a blank before a colon, a folded line, a NUL.
"""

from __future__ import annotations

import re
import sys

import msgspec

MAX_HEAD = 256 * 1024
"""Bytes a request line and its header fields may take together."""

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([^ \r\n]+) HTTP/1\.([01])\Z")
# One scan finds the few fields that matter for framing; splitting every line costs three times as much.
_FRAMING = re.compile(rb"\r\n(content-length|transfer-encoding|connection|expect|host):[ \t]*([^\r\n]*)", re.IGNORECASE)
# RFC 9112 5 and 5.1: a name that is a token, no blank before the colon, no folded line; RFC 9110 5.5: no CR, LF or NUL.
_FIELDS = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*\r\n)*+")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[!$%&'()*+,\-.0-9;=A-Z_a-z~]*)(?::[0-9]*)?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\Z")
_CHUNKED = -1


class BadRequest(Exception):
    """A request that cannot be read; `status` is what to answer before closing."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Head(msgspec.Struct, frozen=True, gc=False):
    """The request line and what the header fields say about framing.

    Attributes:
        method: as sent, case kept.
        target: the request target, one character per byte (latin-1), nothing decoded.
        length: bytes of body, 0 when there is none, -1 when it is chunked.
        keep_alive: whether the client lets the connection live on (RFC 9112 9.3); an HTTP/1.0 one never.
        expects: whether it waits for 100 Continue (RFC 9110 10.1.1).
        host: the Host field, or "".
        fields: the raw header block, each line ended by CRLF.
    """

    method: str
    target: str
    length: int
    keep_alive: bool
    expects: bool
    host: str
    fields: bytes

    def pairs(self) -> list[tuple[str, str]]:
        """Return the header fields in the order they came, names as written, surrounding blanks removed."""
        split = (line.partition(b":") for line in self.fields.split(b"\r\n") if line)
        return [(name.decode("latin-1"), value.strip(b" \t").decode("latin-1")) for name, _, value in split]


def take_head(buffer: bytearray) -> Head | None:
    """Remove one request head from the front of `buffer`.

    Args:
        buffer: received bytes; left as it is while the head is incomplete.

    Returns:
        The head, or None when more bytes are needed.

    Raises:
        BadRequest: the head is too long, malformed or ambiguous.
    """
    while buffer.startswith(b"\r\n"):  # RFC 9112 2.2: an empty line before the request line is skipped
        del buffer[:2]
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > MAX_HEAD:
            raise BadRequest(431, f"the request head is longer than {MAX_HEAD} bytes")
        return None
    block = bytes(buffer[: end + 2])
    del buffer[: end + 4]
    line_end = block.index(b"\r\n")
    line = _REQUEST_LINE.match(block[:line_end])
    if line is None:
        raise BadRequest(400, f"not an HTTP/1.1 request line: {block[:80]!r}")
    if not _FIELDS.fullmatch(block, line_end + 2):
        raise BadRequest(400, "a header field is no token, colon and value")
    length, keep_alive, expects, host = _framing(block[line_end:], modern=line[3] == b"1")
    # Interned: a log of a million requests names the same few methods and hosts again and again.
    method, host = sys.intern(line[1].decode("ascii")), sys.intern(host)
    return Head(method, line[2].decode("latin-1"), length, keep_alive, expects, host, block[line_end + 2 :])


class Body:
    """Takes one request body off a buffer, piece by piece.

    Args:
        length: bytes of body; -1 reads a chunked one.
        keep: how many of its bytes are kept in `data`; the rest is only counted.
    """

    __slots__ = ("_chunked", "_keep", "_left", "_state", "data", "size")

    def __init__(self, length: int, *, keep: int) -> None:
        self._chunked = length == _CHUNKED
        self._left = 0 if self._chunked else length
        self._keep = keep
        self._state = "size" if self._chunked else "data"
        self.data = bytearray()
        self.size = 0

    def take(self, buffer: bytearray) -> bool:
        """Remove what belongs to this body from the front of `buffer`; return whether the body is complete."""
        if not self._chunked:
            self._take_data(buffer)
            return self._left == 0
        while self._state != "done":
            if self._state == "data":
                self._take_data(buffer)
                if self._left:
                    return False
                self._state = "data end"
            elif not self._take_line(buffer):
                return False
        return True

    def _take_data(self, buffer: bytearray) -> None:
        piece = buffer[: self._left]
        del buffer[: self._left]
        self._left -= len(piece)
        self.size += len(piece)
        self.data += piece[: self._keep - len(self.data)]

    def _take_line(self, buffer: bytearray) -> bool:
        """Take one line of chunked framing: a size, the empty line after data, or a trailer field."""
        end = buffer.find(b"\r\n")
        if end < 0:
            if len(buffer) > MAX_HEAD:
                raise BadRequest(400, "a line of the chunked body has no end")
            return False
        line = bytes(buffer[:end])
        del buffer[: end + 2]
        if self._state == "size":
            size = _CHUNK_SIZE.match(line)
            if size is None:
                raise BadRequest(400, f"not a chunk size: {line[:40]!r}")
            self._left = int(size[1], 16)
            self._state = "data" if self._left else "trailer"
        elif self._state == "data end":
            if line:
                raise BadRequest(400, f"a chunk is longer than its size: {line[:40]!r}")
            self._state = "size"
        elif not line:
            self._state = "done"
        return True


def _framing(fields: bytes, *, modern: bool) -> tuple[int, bool, bool, str]:
    lengths: set[bytes] = set()
    codings: list[bytes] = []
    connection, expect = b"", b""
    hosts: list[bytes] = []
    for name, value in _FRAMING.findall(fields):
        match name.lower():
            case b"content-length":
                lengths.add(value.strip())
            case b"transfer-encoding":
                codings.append(value.strip().lower())
            case b"connection":
                connection += b"," + value.lower()
            case b"expect":
                expect = value.strip().lower()
            case _:
                hosts.append(value.strip())
    options = {option.strip() for option in connection.split(b",")}
    keep_alive = modern and b"close" not in options
    return _length(lengths, codings), keep_alive, expect == b"100-continue", _host(hosts, modern=modern)


def _host(hosts: list[bytes], *, modern: bool) -> str:
    """Return the Host field; RFC 9112 3.2 says when it must be refused."""
    if len(hosts) > 1:
        raise BadRequest(400, "more than one Host field")
    if not hosts:
        if modern:
            raise BadRequest(400, "no Host field")
        return ""
    if not _HOST.fullmatch(hosts[0]):
        raise BadRequest(400, f"Host is no host with a port: {hosts[0][:80]!r}")
    return hosts[0].decode("ascii")


def _length(lengths: set[bytes], codings: list[bytes]) -> int:
    # RFC 9112 6.1, 6.3: two framings, or two lengths, let two readers see two different requests.
    if codings:
        if lengths:
            raise BadRequest(400, "both Content-Length and Transfer-Encoding")
        if codings != [b"chunked"]:
            raise BadRequest(501, f"transfer coding {codings[0]!r} is not known")
        return _CHUNKED
    if not lengths:
        return 0
    if len(lengths) > 1:
        raise BadRequest(400, "two different Content-Length values")
    value = lengths.pop()
    if not re.fullmatch(rb"[0-9]{1,18}", value):
        raise BadRequest(400, f"Content-Length is not a number: {value[:40]!r}")
    return int(value)
