"""Codec: heads of messages between objects and bytes."""

from __future__ import annotations

from functools import lru_cache

from aiohttp.http_parser import RawResponseMessage

from comity import redact
from comity.client.headers import Headers
from comity.client.request import Request


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


@lru_cache(maxsize=1024)
def _name(raw: bytes) -> str:
    return raw.decode("latin-1").lower()


def _value(raw: bytes) -> str:
    """Return a field value as text: UTF-8 as most servers mean it, else Latin-1 as RFC 9110 section 5.5 allows."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
