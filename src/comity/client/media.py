"""Media: what the bytes of an answer mean, by its Content-Type.

application/json, text/json, *+json              JSON (RFC 8259: UTF-8 unless a charset says otherwise)
text/*, *+xml, *+yaml, forms, scripts, ndjson    text
no Content-Type                                  text
anything else                                    bytes, unchanged
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from functools import lru_cache
from typing import Any, Literal, NoReturn

import msgspec

from comity.policy.json_path import MISSING, JsonPath

Kind = Literal["json", "text", "bytes"]

_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s\";,]+)", re.IGNORECASE)
_TEXTUAL = frozenset({
    "application/ecmascript", "application/graphql", "application/javascript", "application/jsonl",
    "application/ndjson", "application/sql", "application/toml", "application/x-javascript", "application/x-ndjson",
    "application/x-www-form-urlencoded", "application/x-yaml", "application/xml", "application/xml-dtd",
    "application/yaml",
})  # fmt: skip


@lru_cache(maxsize=256)
def kind(content_type: str | None) -> Kind:
    """Return what a Content-Type makes of a body."""
    if content_type is None or not content_type.strip():
        return "text"
    media = content_type.partition(";")[0].strip().lower()
    if media in {"application/json", "text/json"} or media.endswith("+json"):
        return "json"
    if media.startswith("text/") or media.endswith(("+xml", "+yaml", "+text")) or media in _TEXTUAL:
        return "text"
    return "bytes"


@lru_cache(maxsize=256)
def charset(content_type: str | None) -> str:
    """Return the codec that a Content-Type names, UTF-8 when it names none or none that Python knows."""
    found = _CHARSET.search(content_type or "")
    if found is None:
        return "utf-8"
    try:
        codec = codecs.lookup(found[1])
        # Refuses codecs that make no text, such as "hex", and those that read no other bytes, such as "punycode".
        b"0000-\xff".decode(codec.name, errors="replace")
    except (LookupError, ValueError):
        return "utf-8"
    return codec.name


def decode_text(content: bytes, content_type: str | None) -> str:
    """Return a body as text; bytes that its charset does not know become U+FFFD, a byte order mark is dropped."""
    return content.decode(charset(content_type), errors="replace").removeprefix("\ufeff")


def decode_json(content: bytes, content_type: str | None) -> Any:
    """Return the value of a JSON body.

    Raises:
        ValueError: it is no JSON, or not in its charset, or an integer in it is too long.
        RecursionError: it is nested too deeply.
    """
    content = as_utf8(content, content_type)
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        # Lone surrogates and numbers beyond a double are JSON by the grammar; the standard parser reads them.
        return json.loads(content.decode(), parse_constant=_refuse, parse_int=_integer)


def json_field(content: bytes | None, path: JsonPath) -> Any:
    """Return what stands at a place of a JSON body; MISSING when nothing does, or it is none."""
    if not content:
        return MISSING
    try:
        return path.find(decode_json(content, None))
    except (ValueError, RecursionError):
        return MISSING


def what_is_wrong(content: bytes, error: Exception) -> str:
    """Return what a body is or does, given the error of `decode_json`, for "the body ..."."""
    if not content:
        return "is empty"
    if isinstance(error, RecursionError):
        return "is nested too deeply to be read"
    return str(error) if isinstance(error, TooLong) else "is no JSON"


def as_utf8(content: bytes, content_type: str | None) -> bytes:
    """Return a body in UTF-8, without a byte order mark.

    Raises:
        ValueError: it is not in its charset.
    """
    encoding = charset(content_type)
    if encoding != "utf-8":
        content = content.decode(encoding).encode()
    return content.removeprefix(codecs.BOM_UTF8)


def encode_json(value: object) -> bytes:
    """Return a value as JSON in UTF-8: plain values, dataclasses, dates, UUIDs, decimals, enums, msgspec structs.

    Raises:
        TypeError: something in it has no JSON form.
        ValueError: a number in it is NaN or infinite, which msgspec would write as null (RFC 8259 section 6 has neither).
    """
    encoded = msgspec.json.encode(value)
    if b"null" in encoded:
        _check_numbers(value)
    return encoded


_STRICT = json.JSONEncoder(allow_nan=False, check_circular=False)


def _check_numbers(value: object) -> None:
    plain = msgspec.to_builtins(value, str_keys=True)
    try:
        _STRICT.encode(plain)
    except ValueError:
        raise ValueError("NaN and infinity are no numbers of JSON") from None


class TooLong(ValueError):
    """An integer has more digits than Python reads; quadratic work would be the price."""


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        digits = len(text.removeprefix("-"))
        raise TooLong(f"holds an integer of {digits} digits; {sys.get_int_max_str_digits()} can be read") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
