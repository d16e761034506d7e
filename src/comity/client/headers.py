"""Headers: names to values, whatever the case, several under one name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, overload

from comity import redact
from comity.client.content import encoded
from comity.client.pairs import pairs_of
from comity.errors import InvalidRequest
from comity.policy.naming import type_of
from comity.policy.token import is_token

HeaderInput = Mapping[str, "str | None"] | Iterable[tuple[str, "str | None"]]
"""Headers as a caller writes them: names to values, or pairs. None leaves out the client's header of that name."""

Pairs = tuple[tuple[str, str], ...]
Given = tuple[tuple[str, "str | None"], ...]

T = TypeVar("T")

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._\-]+)(?::[0-9]{1,5})?")
_OURS = frozenset({"connection", "host", "transfer-encoding", "upgrade"})
_FOR_PROXIES = "proxy-authorization"
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Headers(Mapping[str, str]):
    """The headers of a message. Names compare without case and come out in lower case.

    `headers["x"]` is every value of that name joined by ", " (RFC 9110 section 5.3); `get_list` keeps them apart, which
    `set-cookie` needs.

    Args:
        pairs: name and value in the order of the wire.

    Example:
        >>> Headers([("Via", "a"), ("via", "b")])["VIA"]
        'a, b'
    """

    __slots__ = ("_index", "_lines", "pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs: Pairs = tuple(pairs)
        self._index: dict[str, list[str]] | None = None
        self._lines: str | None = None

    @property
    def lines(self) -> str:
        """The headers as they stand on the wire, each line ended."""
        if self._lines is None:
            self._lines = "".join([f"{name}: {value}\r\n" for name, value in self.pairs])
        return self._lines

    @overload
    def get(self, name: str, default: None = None, /) -> str | None: ...
    @overload
    def get(self, name: str, default: str | T, /) -> str | T: ...
    def get(self, name: str, default: object = None, /) -> object:
        """Return the value of a name as `headers[name]` does, or the default."""
        values = self._by_name().get(name.lower())
        return default if values is None else values[0] if len(values) == 1 else ", ".join(values)

    def get_list(self, name: str) -> list[str]:
        """Return every value of a name in order, [] when there is none."""
        return list(self._by_name().get(name.lower(), ()))

    def multi_items(self) -> list[tuple[str, str]]:
        """Return (lower-case name, value) for every header line, in order."""
        return [(name.lower(), value) for name, value in self.pairs]

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._by_name()[name.lower()])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __len__(self) -> int:
        return len(self._by_name())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Headers):
            return self._by_name() == other._by_name()
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(frozenset((name, tuple(values)) for name, values in self._by_name().items()))

    def __repr__(self) -> str:
        return f"Headers({redact.headers(self.multi_items())!r})"

    def _by_name(self) -> dict[str, list[str]]:
        index = self._index
        if index is None:
            index = self._index = {}
            for name, value in self.pairs:
                index.setdefault(name.lower(), []).append(value)
        return index


def checked(given: HeaderInput) -> Given:
    """Return header pairs that can be sent, values without surrounding blanks; Proxy-Authorization is left out.

    Raises:
        InvalidRequest: a name is no token, or a value is no text or holds a control character (RFC 9110 section 5.5),
            or the field belongs to the transport; the message names the header and never shows the value.
    """
    pairs = pairs_of(given, "headers")
    result = tuple(pair for name, value in pairs if (pair := _checked(name, value))[0].lower() != _FOR_PROXIES)
    if sum(name.lower() == "host" for name, _ in result) > 1:
        raise InvalidRequest("header host is given twice")
    return result


def merged(defaults: Headers, given: Given) -> Headers:
    """Return the defaults with the given headers over them: a given name replaces the default of that name."""
    names = {name.lower() for name, _ in given}
    kept = [pair for pair in defaults.pairs if pair[0].lower() not in names]
    return Headers((*kept, *((name, value) for name, value in given if value is not None)))


def _checked(name: object, value: object) -> tuple[str, str | None]:
    if not is_token(name):
        raise InvalidRequest(f"header name {redact.text(repr(name)[:200])} is no token of RFC 9110")
    if value is None:
        return name, None
    if not isinstance(value, str):
        raise InvalidRequest(f"header {name} is {type_of(value)}; a text is needed")
    if _FORBIDDEN.search(value):
        raise InvalidRequest(f"header {name} holds a control character (CR, LF and NUL cannot be sent)")
    if not value.isascii():
        encoded(value, f"header {name}")
    value = value.strip(" \t")
    if name.lower() in _OURS:
        _check_framing(name.lower(), value)
    return name, value


def _check_framing(name: str, value: str) -> None:
    """The transport frames the request; what a caller may say about it is little. Content-Length: see `Request`."""
    if name in {"transfer-encoding", "upgrade"}:
        raise InvalidRequest(f"header {name} cannot be set: the transport frames the request")
    if name == "connection" and value.lower() not in {"close", "keep-alive"}:
        raise InvalidRequest("header connection can be 'close' or 'keep-alive'")
    if name == "host" and not _HOST.fullmatch(value):
        raise InvalidRequest("header host must be one host name, with a port if needed")
