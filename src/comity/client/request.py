"""Request: what is to be sent, checked once and then unchangeable, so that every attempt sends the same bytes."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from comity import redact
from comity.client import address, media
from comity.client.address import Address, Params, Url
from comity.client.basic import basic
from comity.client.content import Content, bytes_of
from comity.client.headers import Given, HeaderInput, Headers, Pairs, checked, merged
from comity.client.multipart import FormFields, FormFiles, form
from comity.errors import InvalidRequest
from comity.policy.json_path import JsonPath
from comity.policy.naming import type_of
from comity.policy.token import is_token

_KEY = re.compile(r"[\x20-\x7e]{1,255}")
_NO_HEADERS = Headers()
_NO_EXTENSIONS: Mapping[str, Any] = MappingProxyType({})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_USUAL = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", *_WITH_BODY})


class Request:
    """One request, as it will stand on the wire.

    Args:
        method: any token of RFC 9110 but CONNECT; upper case is made of it.
        url: an absolute http or https URL, text or a `URL` of yarl or httpx; sent byte for byte. User information becomes Basic authorization.
        params: query parameters to append, properly encoded.
        headers: over `defaults`; a name given here replaces the default, None leaves it out. Proxy-Authorization is not
            sent: no origin may see it (RFC 9110 section 11.7.2).
        content: the body: text, bytes, or a file that is open for bytes and is read at once, up to 100 MB. It must be
            replayable, so it is no generator.
        json: a value to send as JSON; `Content-Type: application/json` is added unless given.
        data: the fields of a form, by name; a list of values gives a name several.
        files: the files of a form, by field name: text, bytes or a file open for bytes, or (file name, that), or (file name,
            that, content type). The form is multipart then.
        idempotent: whether sending twice does no harm; None asks the method.
        idempotency_key: a key for the Idempotency-Key header, the same on every attempt; True makes one.
        expose_cookies: leave `set-cookie` readable in the answer.
        extensions: options for a transport of one's own, by name, handed to it unchanged; the default one knows none.
        defaults: headers that a client adds to all of its requests, already checked.

    Raises:
        InvalidRequest: a part cannot be sent as it stands; the message names it. Nothing was sent.

    Example:
        >>> Request("get", "https://api.example/users", params={"page": 2})
        <Request GET https://api.example/users?page=2>
    """

    __slots__ = ("address", "content", "expose_cookies", "extensions", "headers", "idempotent", "keyed", "method")

    address: Address
    content: bytes | None
    expose_cookies: bool
    extensions: Mapping[str, Any]
    headers: Headers
    idempotent: bool | None
    keyed: bool
    method: str

    def __init__(
        self,
        method: str,
        url: Url,
        *,
        params: Params | None = None,
        headers: HeaderInput | None = None,
        content: Content | None = None,
        json: Any = None,
        data: FormFields | None = None,
        files: FormFiles | None = None,
        idempotent: bool | None = None,
        idempotency_key: str | bool | None = None,
        expose_cookies: bool = False,
        extensions: Mapping[str, Any] | None = None,
        defaults: Headers = _NO_HEADERS,
    ) -> None:
        put = object.__setattr__
        if not isinstance(url, str):
            url = address.text(url)
        put(self, "method", _method(method))
        put(self, "address", address.parse(url if params is None else address.with_params(url, params)))
        body, kind = _body(content, json, data, files)
        fields = merged(defaults, _without_length(checked(headers), body)) if headers else defaults
        if kind or idempotency_key is not None or self.address.userinfo:
            fields = Headers((*fields.pairs, *self._added(fields, kind, idempotency_key)))
        put(self, "content", b"" if body is None and self.method in _WITH_BODY else body)
        put(self, "headers", fields)
        put(self, "idempotent", idempotent)
        put(self, "keyed", "idempotency-key" in fields)
        put(self, "expose_cookies", expose_cookies)
        put(self, "extensions", _extensions(extensions) if extensions else _NO_EXTENSIONS)

    @property
    def url(self) -> str:
        """The URL as it is sent, without user information and fragment."""
        return self.address.url

    @property
    def path(self) -> str:
        """The path as it is sent, without the query."""
        return self.address.path

    @property
    def line(self) -> str:
        """Method and URL, without secrets, as messages name a request."""
        return f"{self.method} {redact.url(self.url)}"

    def field(self, path: JsonPath) -> object:
        """Return what stands there in the JSON body, MISSING when nothing does."""
        return media.json_field(self.content, path)

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
        state = {name: getattr(self, name) for name in self.__slots__}
        return {**state, "extensions": dict(self.extensions)}  # a view of a mapping cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, MappingProxyType(value) if name == "extensions" else value)

    def __repr__(self) -> str:
        return f"<Request {self.line}>"

    def _added(self, fields: Headers, kind: str, key: str | bool | None) -> Pairs:
        """Return the headers that the options ask for and the caller did not write."""
        added: list[tuple[str, str]] = []
        if kind and "content-type" not in fields:
            added.append(("Content-Type", kind))
        elif "boundary" in kind:
            raise InvalidRequest(
                "header content-type is set by a form with files, as it names the boundary; leave it out"
            )
        if self.address.userinfo and "authorization" not in fields:
            added.append(("Authorization", basic(self.address.userinfo)))
        if key is not None and key is not False and "idempotency-key" not in fields:
            added.append(("Idempotency-Key", _quoted_key(key)))
        return tuple(added)


def _extensions(given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidRequest(f"extensions is {type_of(given)}; a mapping of names to values is needed")
    return MappingProxyType(dict(given))


def _method(method: object) -> str:
    if isinstance(method, str) and method in _USUAL:
        return method
    if not is_token(method):
        raise InvalidRequest(f"method {redact.text(repr(method)[:80])} is no token of RFC 9110")
    upper = method.upper()
    if upper == "CONNECT":
        raise InvalidRequest("method CONNECT opens a tunnel and is no request of its own")
    return upper


def _body(content: object, json: object, data: Any, files: Any) -> tuple[bytes | None, str]:
    """Return the body and the Content-Type that it brings, "" for none."""
    if content is None and json is None and data is None and files is None:
        return None, ""
    if data is not None or files is not None:
        _check_alone(
            "data and files" if data is not None and files is not None else "data" if files is None else "files",
            content=content,
            json=json,
        )
        return form(data, files)
    if json is not None:
        _check_alone("json", content=content)
        try:
            return media.encode_json(json), "application/json"
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"json cannot be encoded: {redact.text(str(error)[:200])}") from None
    return None if content is None else bytes_of(content, "content"), ""


def _check_alone(name: str, **others: object) -> None:
    for other, value in others.items():
        if value is not None:
            raise InvalidRequest(f"{other} and {name} are both given; one body can be sent")


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
    if not isinstance(key, str):
        raise InvalidRequest(f"idempotency_key is {type_of(key)}; text is needed, or True for a new key")
    if not _KEY.fullmatch(key):
        raise InvalidRequest("idempotency_key must be True or 1 to 255 printable ASCII characters")
    if len(key) > 1 and key[0] == key[-1] == '"':
        return key
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
