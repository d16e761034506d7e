"""Codec: heads of messages between objects and bytes."""

from __future__ import annotations

import re
from functools import lru_cache

from aiohttp.http_parser import RawResponseMessage

from comity import redact
from comity.client.headers import Headers
from comity.client.request import Request

_CHUNKED = re.compile(r"(?:^|,)[ \t]*chunked[ \t]*$", re.IGNORECASE)


def request_head(request: Request) -> bytes:
    """Return the request line and the fields; Host first (RFC 9110 section 7.2), framing by Content-Length."""
    address, fields = request.address, request.headers
    host = "" if "host" in fields else f"Host: {address.origin.authority}\r\n"
    length = "" if request.content is None else f"Content-Length: {len(request.content)}\r\n"
    return f"{request.method} {address.target} HTTP/1.1\r\n{host}{fields.lines}{length}\r\n".encode()


def response_headers(message: RawResponseMessage, *, expose_cookies: bool) -> Headers:
    """Return the fields of an answer, names in lower case, cookies masked unless they are to be exposed."""
    pairs = [(_name(name), _value(value)) for name, value in message.raw_headers]
    if not expose_cookies:
        pairs = redact.cookies(pairs)
    return Headers(pairs)


def codings(message: RawResponseMessage, *, framed: bool) -> str | None:
    """Return what the body of an answer is coded with: content codings, then transfer codings but for the framing.

    Args:
        message: the answer's head.
        framed: it has a Content-Length, beside which the parser takes no transfer codings.
    """
    headers = message.headers
    found = headers.getall("Content-Encoding", None)
    transfer = None if framed else headers.getall("Transfer-Encoding", None)
    if transfer is not None:
        under = _CHUNKED.sub("", ",".join(transfer))
        if under:
            found = [*(found or ()), under]
    return None if found is None else ",".join(found)


@lru_cache(maxsize=1024)
def _name(raw: bytes) -> str:
    return raw.decode("latin-1").lower()


def _value(raw: bytes) -> str:
    """Return a field value as text: UTF-8 as most servers mean it, else Latin-1 as RFC 9110 section 5.5 allows."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
