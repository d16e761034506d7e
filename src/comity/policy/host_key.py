"""HostKey: which requests a key of `hosts` means: a host, and perhaps a group of the requests to it.

    api.example.com                       every request to the host and its subdomains
    api.example.com/search/*              those to a path; * stands for anything, "/" included
    POST api.example.com                  those of a method
    api.example.com json:model=gpt-*      those whose JSON body has such a value in that place

The conditions may be joined: "POST api.example.com/v1/chat/* json:model=gpt-*".
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import AddressValueError, IPv6Address
from typing import Protocol

from comity.policy.json_path import JsonPath
from comity.policy.naming import unusable
from comity.policy.token import is_token

ALLOWED = (
    'a host name in ASCII such as "example.com", which covers its subdomains, "127.0.0.1:8471" or "[::1]:8471", for a group '
    'of requests with a method before it or a path or field behind it: "POST example.com/v1/* json:model=gpt-*"'
)
_HOST = re.compile(r"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")
_FIELD = "json:"


class Ask(Protocol):
    """What a request asks for, as far as it decides on its group."""

    @property
    def method(self) -> str:
        """Return the method in upper case."""

    @property
    def path(self) -> str:
        """Return the path as it is sent, without the query."""

    def field(self, path: JsonPath) -> object:
        """Return what stands there in the JSON body; MISSING when nothing does."""


class HostKey:
    """A checked key.

    Args:
        text: the key.

    Attributes:
        host: the host's name, perhaps with a port.
        text: the whole key in one spelling.
        conditional: whether it means a part of the host's requests only.

    Raises:
        OptionsError: it names no host, or a condition cannot be read.

    Example:
        >>> HostKey("POST API.example.com/v1/*").text
        'POST api.example.com/v1/*'
    """

    __slots__ = ("_field", "_method", "_path", "_value", "host", "text")

    def __init__(self, text: object) -> None:
        words = text.split() if isinstance(text, str) else []
        self._method = words.pop(0) if words and words[0].isupper() and is_token(words[0]) and words[1:] else None
        address, slash, path = (words.pop(0) if words else "").partition("/")
        field = words.pop(0) if words and words[0].startswith(_FIELD) else None
        self.host = _host(address)
        if not self.host or words:
            raise unusable("hosts", text, ALLOWED)
        place, equals, value = (field or "").removeprefix(_FIELD).partition("=")
        if field is not None and not (place and equals and value):
            raise unusable("hosts", text, 'a field and its value such as "json:model=gpt-*"')
        self._path = _pattern(slash + path) if slash else None
        self._field = JsonPath(place, "hosts") if field is not None else None
        self._value = _pattern(value)
        self.text = " ".join(part for part in (self._method, self.host + slash + path, field) if part)

    @property
    def conditional(self) -> bool:
        """Whether it means a part of the host's requests only."""
        return self.text != self.host

    def covers(self, ask: Ask) -> bool:
        """Return whether a request to this host meets the conditions."""
        if self._method is not None and ask.method != self._method:
            return False
        if self._path is not None and not self._path.fullmatch(ask.path):
            return False
        if self._field is None:
            return True
        value = plain(ask.field(self._field))
        return value is not None and self._value.fullmatch(value) is not None


def plain(value: object) -> str | None:
    """Return a JSON string, number or boolean as it is written in a key; None for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def split_host(host: str) -> tuple[str, str]:
    """Return the name and the port (":80" or "") in one spelling: lower case, no dot for the root, IPv6 shortened."""
    name, port = host.lower(), ""
    if name.count(":") == 1 or "]:" in name:
        name, _, port = name.rpartition(":")
        port = f":{port}"
    if ":" in name:
        bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
        with suppress(AddressValueError):  # else it is no name at all, and no key can match it
            name = f"[{IPv6Address(bare).compressed}]"
    return name.removesuffix("."), port


def is_address(name: str) -> bool:
    """Return whether a name is an IP address, which has no subdomains: no top-level domain is a number (RFC 3696, 2)."""
    return name.startswith("[") or name.rpartition(".")[2].isdigit()


def _host(text: str) -> str:
    """Return a host in one spelling; "" when it is none."""
    name, port = split_host(text)
    part_of_address = is_address(name) and not name.startswith("[") and name.count(".") != 3
    return name + port if _HOST.fullmatch(name + port) and not part_of_address else ""


def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, glob.split("*"))), re.DOTALL)
