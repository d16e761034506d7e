"""Request: what is to be sent, checked once and then unchangeable, so that every attempt sends the same bytes."""

from __future__ import annotations

import re
import uuid
from base64 import b64encode
from typing import Any, NoReturn

from comity import redact
from comity.client import address, media
from comity.client.address import Address, Params
from comity.client.headers import Given, HeaderInput, Headers, Pairs, checked, merged
from comity.errors import InvalidRequest
from comity.policy.token import is_token

Content = str | bytes | bytearray | memoryview | None
"""A body that can be sent again: text (as UTF-8) or bytes."""

_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_NO_HEADERS = Headers()
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Request:
    """One request, as it will stand on the wire.

    Args:
        method: any token of RFC 9110 but CONNECT; upper case is made of it.
        url: an absolute http or https URL; sent byte for byte. User information becomes Basic authorization.
        params: query parameters to append, properly encoded.
        headers: over `defaults`; a name given here replaces the default, None leaves it out. Proxy-Authorization is not
            sent: no origin may see it (RFC 9110 section 11.7.2).
        content: the body, text or bytes; it must be replayable, so no stream.
        json: a value to send as JSON; `Content-Type: application/json` is added unless given.
        idempotent: whether sending twice does no harm; None asks the method.
        idempotency_key: a key for the Idempotency-Key header, the same on every attempt; True makes one.
        expose_cookies: leave `set-cookie` readable in the answer.
        defaults: headers that a client adds to all of its requests, already checked.

    Raises:
        InvalidRequest: a part cannot be sent as it stands; the message names it. Nothing was sent.

    Example:
        >>> Request("get", "https://api.example/users", params={"page": 2})
        <Request GET https://api.example/users?page=2>
    """

    __slots__ = ("address", "content", "expose_cookies", "headers", "idempotent", "keyed", "method")

    address: Address
    content: bytes | None
    expose_cookies: bool
    headers: Headers
    idempotent: bool | None
    keyed: bool
    method: str

    def __init__(
        self,
        method: str,
        url: str,
        *,
        params: Params | None = None,
        headers: HeaderInput | None = None,
        content: Content = None,
        json: Any = None,
        idempotent: bool | None = None,
        idempotency_key: str | bool | None = None,
        expose_cookies: bool = False,
        defaults: Headers = _NO_HEADERS,
    ) -> None:
        put = object.__setattr__
        put(self, "method", _method(method))
        put(self, "address", address.parse(url if params is None else address.with_params(url, params)))
        body = _body(content, json)
        fields = merged(defaults, _without_length(checked(headers), body)) if headers else defaults
        if json is not None or idempotency_key or self.address.userinfo:
            fields = Headers((*fields.pairs, *self._added(fields, json is not None, idempotency_key)))
        put(self, "content", b"" if body is None and self.method in _WITH_BODY else body)
        put(self, "headers", fields)
        put(self, "idempotent", idempotent)
        put(self, "keyed", "idempotency-key" in fields)
        put(self, "expose_cookies", expose_cookies)

    @property
    def url(self) -> str:
        """The URL as it is sent, without user information and fragment."""
        return self.address.url

    def altered(self, **parts: Any) -> Request:
        """Return a copy with other parts, which are already checked: another hop, or what is added at the send."""
        copy, put = object.__new__(Request), object.__setattr__
        for name in self.__slots__:
            put(copy, name, parts[name] if name in parts else getattr(self, name))
        put(copy, "keyed", "idempotency-key" in copy.headers)
        return copy

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Request cannot be changed; {name} was set at its construction")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Request cannot be changed; {name} was set at its construction")

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<Request {self.method} {redact.url(self.url)}>"

    def _added(self, fields: Headers, has_json: bool, key: str | bool | None) -> Pairs:
        """Return the headers that the options ask for and the caller did not write."""
        added: list[tuple[str, str]] = []
        if has_json and "content-type" not in fields:
            added.append(("Content-Type", "application/json"))
        if self.address.userinfo and "authorization" not in fields:
            added.append(("Authorization", f"Basic {b64encode(self.address.userinfo).decode()}"))
        if key and "idempotency-key" not in fields:
            added.append(("Idempotency-Key", _quoted_key(key)))
        return tuple(added)


def _method(method: object) -> str:
    if not is_token(method):
        raise InvalidRequest(f"method {redact.text(repr(method)[:80])} is no token of RFC 9110")
    upper = method.upper()
    if upper == "CONNECT":
        raise InvalidRequest("method CONNECT opens a tunnel and is no request of its own")
    return upper


def _body(content: object, json: object) -> bytes | None:
    if json is not None:
        if content is not None:
            raise InvalidRequest("content and json are both given; one body can be sent")
        try:
            return media.encode_json(json)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"json cannot be encoded: {redact.text(str(error)[:200])}") from None
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError:
            raise InvalidRequest("content holds half of a surrogate pair") from None
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise InvalidRequest(
        f"content is a {type(content).__name__}, a body that cannot be replayed on a retry; pass text or bytes"
    )


def _without_length(given: Given, body: bytes | None) -> Given:
    """Leave Content-Length to the transport: a true one is dropped, one that lies is refused."""
    length = str(len(body or b""))
    for name, value in given:
        if name.lower() == "content-length" and value not in {None, length}:
            raise InvalidRequest(f"header content-length differs from the {length} bytes of the body")
    return tuple(pair for pair in given if pair[0].lower() != "content-length")


def _quoted_key(key: str | bool) -> str:
    """Return an Idempotency-Key field value: a quoted string (draft-ietf-httpapi-idempotency-key-header-07)."""
    if key is True:
        return f'"{uuid.uuid4()}"'
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidRequest("idempotency_key must be True or 1 to 255 printable ASCII characters")
    if len(key) > 1 and key[0] == key[-1] == '"':
        return key
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
