"""Multipart: forms as browsers send them, built once, so that every attempt sends the same bytes.

A form of fields alone is application/x-www-form-urlencoded, one with files multipart/form-data (RFC 7578). Names and file
names are escaped as the HTML standard says (CR, LF and the quote in percent form), so that none can begin a header.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from urllib.parse import urlencode

from comity.client.content import Content, bytes_of, encoded
from comity.client.pairs import pairs_of
from comity.errors import InvalidRequest
from comity.policy.naming import type_of

Field = str | bytes | int | float
FormFields = Mapping[str, Field | Iterable[Field]] | Iterable[tuple[str, Field]]
"""The fields of a form; a list of values gives a name several."""

FileGiven = Content | tuple[str | None, Content] | tuple[str | None, Content, str]
"""A file's content, or (file name, content), or (file name, content, content type)."""

FormFiles = Mapping[str, FileGiven] | Iterable[tuple[str, FileGiven]]
"""The files of a form by field name."""

_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[\x20-\x7e]+")
_ESCAPED = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def form(data: FormFields | None, files: FormFiles | None) -> tuple[bytes, str]:
    """Return the body of a form and its Content-Type.

    Raises:
        InvalidRequest: a name, value or file cannot be sent; the message names it.
    """
    fields = [] if data is None else list(_fields(data))
    if files is None:
        return urlencode(fields).encode(), "application/x-www-form-urlencoded"
    boundary = secrets.token_hex(16).encode()
    parts = bytearray()
    for name, value in fields:
        _add(parts, boundary, f'name="{_quoted(name)}"', "", value)
    for name, given in pairs_of(files, "files"):
        filename, content, kind = _file(name, given)
        of_file = "" if filename is None else f'; filename="{_quoted(filename)}"'
        _add(parts, boundary, f'name="{_quoted(_name(name))}"{of_file}', kind, content)
    parts += b"--%b--\r\n" % boundary
    return bytes(parts), f"multipart/form-data; boundary={boundary.decode()}"


def _fields(data: FormFields) -> Iterable[tuple[str, bytes]]:
    for name, value in pairs_of(data, "data"):
        # Iterables that mean one thing: their items would be sent without a word as values of their own.
        one = isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or hasattr(value, "read")
        for each in value if isinstance(value, Iterable) and not one else (value,):
            yield _name(name), _text(name, each)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidRequest(f"a field of the form is named by {type_of(name)}; a text is needed")
    encoded(name, "the name of a field")
    return name


def _text(name: object, value: object) -> bytes:
    if isinstance(value, bool) or not isinstance(value, (str, bytes, int, float)):
        place = f"; a file belongs into files={{{name!r}: ...}}" if hasattr(value, "read") else ""
        raise InvalidRequest(
            f"field {name!r} of the form is {type_of(value)}; text, bytes or a number is needed{place}"
        )
    return value if isinstance(value, bytes) else encoded(str(value), f"field {name!r} of the form")


def _file(name: object, given: object) -> tuple[str | None, bytes, str]:
    what = f"file {name!r}"
    filename: object = None
    kind: object = "application/octet-stream"
    content = given
    if isinstance(given, tuple):
        if len(given) not in {2, 3}:
            raise InvalidRequest(f"{what} is a tuple of {len(given)}; (file name, content[, content type]) is needed")
        filename, content, kind = given if len(given) == 3 else (*given, kind)
    else:
        named = getattr(given, "name", None)
        filename = PurePath(named).name if isinstance(named, str) else name
    if not (filename is None or isinstance(filename, str)):
        raise InvalidRequest(f"{what} has a file name that is {type_of(filename)}; a text is needed")
    if not isinstance(kind, str) or not _MEDIA_TYPE.fullmatch(kind):
        raise InvalidRequest(f"{what} has a content type that is none")
    return filename, bytes_of(content, what), kind


def _quoted(name: str) -> str:
    encoded(name, "the name of a file")
    return name.translate(_ESCAPED)


def _add(parts: bytearray, boundary: bytes, named: str, kind: str, content: bytes) -> None:
    head = f"Content-Disposition: form-data; {named}\r\n" + (f"Content-Type: {kind}\r\n" if kind else "")
    parts += b"--%b\r\n%b\r\n%b\r\n" % (boundary, head.encode(), content)
