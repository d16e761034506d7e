"""One answer as a value: what is sent, after how long, in which pieces, and how the connection fares after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from http import HTTPStatus

import msgspec

CRLF = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_NO_BODY = {204, 304}
_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "


class End(Enum):
    """What happens to the connection when the answer's last piece has been handed over."""

    KEEP = "it may carry the next request"
    ANNOUNCED = "it is closed, as the answer's Connection: close said"
    CLOSE = "it is closed without a word (FIN)"
    RESET = "it is reset (RST)"
    HANG = "it stays open and silent until the client goes"


class Answer(msgspec.Struct):
    """What to send for one request.

    Attributes:
        status: the status in the head; None when no head is sent.
        head: status line and header fields, each line ended by CRLF, without the empty line; b"" sends none.
        body: the first piece of the body, sent together with the head.
        more: the pieces after it.
        delay: ns from the request's arrival to the answer's first byte.
        gap: ns before each piece of `more`, and before the end when that is no ordinary one.
        end: what then happens to the connection.
    """

    status: int | None
    head: bytes
    body: bytes = b""
    more: Iterator[bytes] | None = None
    delay: int = 0
    gap: int = 0
    end: End = End.KEEP


def head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a status line and header fields, each ended by CRLF.

    Raises:
        ValueError: a name or value would break out of its line.
    """
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Unknown')}"]
    for name, value in headers:
        if not name or any(forbidden in name + value for forbidden in "\r\n\0") or ":" in name:
            raise ValueError(f"not a header field: {name!r}: {value!r}")
        lines.append(f"{name}: {value}")
    return "\r\n".join(lines).encode("latin-1", "replace") + CRLF


def answer(status: int, kind: str, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """Return a whole answer with its right Content-Length; 204 and 304 have no body (RFC 9110 15.3.5, 15.4.5)."""
    if status in _NO_BODY:
        return Answer(status, head(status, headers))
    framing = [("Content-Type", kind), ("Content-Length", str(len(body)))]
    return Answer(status, head(status, [*framing, *headers]), body)


def ok(body: bytes) -> Answer:
    """Return a 200 with a JSON text, by the shortest way."""
    return Answer(200, _JSON + b"%d\r\n" % len(body), body)


def json(status: int, value: object, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """Return an answer whose body is `value` as JSON."""
    return answer(status, "application/json", msgspec.json.encode(value), headers)


def text(status: int, body: str, headers: Iterable[tuple[str, str]] = ()) -> Answer:
    """Return an answer with a plain text."""
    return answer(status, "text/plain; charset=utf-8", body.encode(), headers)


def chunked(status: int, kind: str, pieces: Iterable[bytes], *, gap: int = 0) -> Answer:
    """Return an answer whose body comes in chunks of its own, `gap` ns before each (RFC 9112 7.1)."""
    fields = [("Content-Type", kind), ("Transfer-Encoding", "chunked")]
    return Answer(status, head(status, fields), more=_chunks(pieces), gap=gap)


def chunk(piece: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    # The last chunk travels with the last piece: a gap before it would delay an answer that is complete.
    held: bytes | None = None
    for piece in pieces:
        if held is not None:
            yield held
        held = chunk(piece)
    yield (held or b"") + LAST_CHUNK
