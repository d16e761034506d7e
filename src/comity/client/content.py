"""Content: the bytes of a body, or of a file in a form, whichever way they are given."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from comity.errors import InvalidRequest
from comity.policy.naming import type_of

Content = str | bytes | bytearray | memoryview | BinaryIO
"""What can be sent again: text (as UTF-8), bytes, or a file open for bytes, which is read at once."""

MOST_READ = 100 * 1024 * 1024
"""Most bytes that are read of one file that is sent; a larger one does not belong into memory."""


def bytes_of(content: object, what: str) -> bytes:
    """Return the bytes that are given; a file is read from its position on.

    Args:
        content: them, as `Content`.
        what: what they are, for the message.

    Raises:
        InvalidRequest: it is something else, or a file that is open as text, cannot be read, or is longer than `MOST_READ`.
    """
    if type(content) is bytes:
        return content
    if isinstance(content, str):
        return encoded(content, what)
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    if hasattr(content, "read"):
        return _read(content, what)
    raise InvalidRequest(
        f"{what} is {type_of(content)}, which cannot be replayed on a retry; "
        'pass text, bytes or a file open for bytes, and join what comes in pieces, as b"".join(...)'
    )


def encoded(text: str, what: str) -> bytes:
    """Return a text as UTF-8.

    Raises:
        InvalidRequest: it holds half of a surrogate pair (RFC 3629 section 3); the message names `what`.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{what} holds half of a surrogate pair") from None


def _read(file: Any, what: str) -> bytes:
    try:
        content = file.read(MOST_READ + 1)
    except (OSError, ValueError) as error:  # a file that is closed, or not open for reading
        raise InvalidRequest(f"{what} cannot be read: {error}") from None
    if isinstance(content, str):
        raise InvalidRequest(f"{what} is open as text; open it for bytes, with mode 'rb'")
    if not isinstance(content, (bytes, bytearray)):
        raise InvalidRequest(f"{what} gives {type_of(content)} instead of bytes")
    if len(content) > MOST_READ:
        raise InvalidRequest(
            f"{what} has {_size(file, len(content))} bytes to send, more than the {MOST_READ} that are read into memory; send it in parts"
        )
    return bytes(content)


def _size(file: Any, taken: int) -> str:
    """Return how many bytes a file had, `taken` of which were read, and leave it at its end."""
    try:
        begin = file.tell() - taken
        return str(file.seek(0, os.SEEK_END) - begin)
    except (AttributeError, OSError, ValueError):  # a pipe, say
        return f"over {taken - 1}"
