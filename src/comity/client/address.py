"""Address: where a URL leads, without changing a byte of what follows the host.

A URL is sent as it was given (a signed query would break otherwise). Only what no request line can carry is touched:
blanks and characters beyond ASCII are percent-encoded, a fragment stays here; control characters and halves of surrogate
pairs are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec

from comity import redact
from comity.client.content import encoded
from comity.client.pairs import pairs_of
from comity.errors import InvalidRequest
from comity.policy.naming import type_of

Params = Mapping[str, object] | Iterable[tuple[str, object]]
"""Query parameters: names to values, or pairs. A list is repeated, None is left out, True is "true"."""

Url = str | Any
"""Text, or an object whose class is called `URL`, as those of yarl and httpx are."""

PORTS = {"http": 80, "https": 443}

_PLAIN = re.compile(r"(https?)://([!\"$-.0->@-[\]-~]*)(/[!\"$-~]*)")
"""Nothing in it has to be encoded, cut off or refused but by `_authority`: most URLs, taken apart in one step."""

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_REFUSED = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # UTF-8 has no surrogates (RFC 3629 section 3)
_UNSENDABLE = re.compile(r"[^\x21-\x7e]+")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_\-]{0,61}[A-Za-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_END_OF_AUTHORITY = re.compile(r"[/?#\\]")


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Scheme, host and port of a server.

    Args:
        scheme: "http" or "https".
        host: the name in lower case and ASCII, or the address (IPv6 without brackets).
        port: the port.
        key: the name of its limiter: the host, with the port when that is not the scheme's own.
        text: scheme, host and port as a URL begins with them.
    """

    scheme: str
    host: str
    port: int
    key: str
    text: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        return self.key

    def __str__(self) -> str:
        return self.text


class Address(msgspec.Struct, frozen=True, gc=False):
    """A URL taken apart.

    Args:
        origin: the server.
        target: path and query as the request line carries them.
        userinfo: "user:password" as it stood in the URL, "" when there was none.
    """

    origin: Origin
    target: str
    userinfo: bytes = b""

    @property
    def path(self) -> str:
        """The path as it is sent, without the query."""
        return self.target.partition("?")[0]

    @property
    def url(self) -> str:
        """The URL without user information and fragment."""
        return f"{self.origin.text}{self.target}"

    def __repr__(self) -> str:
        user = f"{redact.MASK}@" if self.userinfo else ""
        return f"<Address {self.origin.scheme}://{user}{self.origin.authority}{redact.url(self.target)}>"


def is_url(given: object) -> bool:
    """Tell whether a value is what `Url` says."""
    return isinstance(given, str) or type(given).__name__ == "URL"


def text(url: object) -> str:
    """Return the text of a URL that is given as an object of another library.

    Raises:
        InvalidRequest: its class is not called `URL`.
    """
    if is_url(url):
        return str(url)
    raise InvalidRequest(f"url is {type_of(url)}; text or an object of a class URL is needed")


def is_absolute(url: str) -> bool:
    """Tell whether a URL names its own scheme and host.

    Raises:
        InvalidRequest: it is no text.
    """
    _check_text(url)
    return _ABSOLUTE.match(url) is not None


def parse(url: str) -> Address:
    """Take an absolute http or https URL apart.

    Raises:
        InvalidRequest: it cannot be sent; the message names the part.
    """
    _check_text(url)
    if plain := _PLAIN.fullmatch(url):
        origin, userinfo = _authority(plain[1], plain[2])
        return Address(origin, plain[3], userinfo)
    refused = _REFUSED.search(url)
    if refused is not None:
        what = "a control character" if refused[0].isascii() else "half of a surrogate pair"
        raise InvalidRequest(f"url {_shown(url)} holds {what}")
    scheme, mark, rest = url.partition("://")
    if not mark:
        raise InvalidRequest(f"url {_shown(url)} has no scheme and host; https://host/path is needed")
    end = _END_OF_AUTHORITY.search(rest)
    size = end.start() if end else len(rest)
    origin, userinfo = _authority(scheme, rest[:size])
    tail = rest[size:].partition("#")[0]
    if not tail.startswith("/"):
        tail = f"/{tail}"
    return Address(origin, _UNSENDABLE.sub(_encode, tail), userinfo)


def with_params(url: str, params: Params) -> str:
    """Append query parameters, properly encoded, and leave what was there as it is.

    Raises:
        InvalidRequest: a name is no text, or a value is no text, number, boolean, None or list of these.
    """
    _check_text(url)
    added = "&".join(
        f"{name}={value}" for key, given in pairs_of(params, "params") for name, value in _param(key, given)
    )
    if not added:
        return url
    head, hash_mark, fragment = url.partition("#")
    joint = "" if head.endswith(("?", "&")) else "&" if "?" in head else "?"
    return f"{head}{joint}{added}{hash_mark}{fragment}"


def join(base: str, url: str) -> str:
    """Return a relative URL under a base URL: its path is kept, and nothing in `url` can lead to another host."""
    if not url or url[0] in "?#":
        return f"{base}{url}"
    return f"{base.rstrip('/')}/{url.removeprefix('/')}"


def _check_text(url: object) -> None:
    if not isinstance(url, str):
        raise InvalidRequest(f"url is {type_of(url)}; a text such as 'https://api.example/x' is needed")


@lru_cache(maxsize=2048)
def _authority(scheme: str, authority: str) -> tuple[Origin, bytes]:
    shown = _shown(f"{scheme}://{authority}")
    scheme = scheme.lower()
    if scheme not in PORTS:
        raise InvalidRequest(f"url {shown} has an unsupported scheme; http and https can be sent")
    userinfo, _, location = authority.rpartition("@")
    host, port_text = _split_port(location, shown)
    port = _port(port_text, PORTS[scheme], shown)
    name = _host(host, shown)
    written = f"[{name}]" if ":" in name else name
    key = written if port == PORTS[scheme] else f"{written}:{port}"
    return Origin(scheme, name, port, key, f"{scheme}://{key}"), unquote_to_bytes(userinfo)


def _split_port(location: str, shown: str) -> tuple[str, str]:
    if location.startswith("["):
        host, bracket, rest = location.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise InvalidRequest(f"url {shown} has a malformed IPv6 host")
        return f"{host}]", rest[1:]
    host, _, port = location.partition(":")
    return host, port


def _port(text: str, default: int, shown: str) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65_535):
        raise InvalidRequest(f"url {shown} has an unusable port; 1 to 65535 are possible")
    return int(text)


def _host(host: str, shown: str) -> str:
    if host.startswith("["):
        return _ipv6(host[1:-1], shown)
    if not host:
        raise InvalidRequest(f"url {shown} has no host")
    name = host.lower() if host.isascii() else _to_ascii(host, shown)
    labels = name.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(name, shown)
    if len(name) > 254 or not all(map(_LABEL.fullmatch, labels)):
        raise InvalidRequest(
            f"url {shown} has an invalid host name: labels are 1 to 63 letters, digits, '-' or '_', 253 characters in all"
        )
    return name


def _ipv4(text: str, shown: str) -> str:
    """Refuse other spellings of an address (2130706433, 127.1, 0x7f.1): the resolver's reading of them differs."""
    try:
        return str(IPv4Address(text))
    except AddressValueError:
        raise InvalidRequest(f"url {shown} has a host that is no canonical IPv4 address") from None


def _ipv6(text: str, shown: str) -> str:
    if "%" in text:
        raise InvalidRequest(f"url {shown} has an IPv6 host with a zone id, which cannot be used")
    try:
        IPv6Address(text)
    except AddressValueError:
        raise InvalidRequest(f"url {shown} has a malformed IPv6 host") from None
    return text.lower()


def _to_ascii(host: str, shown: str) -> str:
    from yarl import URL  # holds the IDNA 2008 tables; needed for such a host only

    try:
        return URL.build(scheme="http", host=host).raw_host or ""
    except ValueError:
        raise InvalidRequest(f"url {shown} has a host name that IDNA does not know") from None


def _param(name: object, value: object) -> list[tuple[str, str]]:
    if not isinstance(name, str):
        raise InvalidRequest(f"params has a name that is {type_of(name)}; a text is needed")
    values: Sequence[object] = value if isinstance(value, (list, tuple)) else (value,)
    shown = f"params[{name!r}]"
    return [(_quoted(name, shown), _quoted(_param_text(name, item), shown)) for item in values if item is not None]


def _param_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidRequest(f"params[{name!r}] is {type_of(value)}; text, numbers and lists of them can be sent")


def _quoted(text: str, shown: str) -> str:
    return quote(encoded(text, shown), safe="")


def _encode(found: re.Match[str]) -> str:
    return quote(found[0], safe="")


def _shown(url: str) -> str:
    return repr(redact.url(url)[:200])
