"""Proxy: where a client's connections go through, and the tunnel that is opened there (RFC 9110 section 9.3.6).

Every request goes through a tunnel, also one to an http URL, so that the proxy sees no request and no answer of it, and
so that what comes back (status, headers, time) is the target's.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, cast

from comity import redact
from comity.client import address
from comity.client.address import Origin
from comity.client.basic import basic
from comity.errors import InvalidRequest, OptionsError

MAX_ANSWER = 64 * 1024
"""Most bytes that a proxy may answer to CONNECT."""

_FORM = 'an http:// or https:// URL such as "http://user:password@proxy.example:3128"'
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_START: Final = b"HTTP/1."
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?\r?$")
_END = re.compile(rb"\r?\n\r?\n")


class ProxyFailed(ConnectionError):
    """The proxy opened no tunnel.

    Args:
        text: why; it may be shown.
        code: the status it answered, "" when it gave none.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy.

    Args:
        origin: where it listens.
        authorization: the value of Proxy-Authorization, None when its URL holds no user information.
    """

    origin: Origin
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, given: str | None) -> Proxy | None:
        """Return the proxy of a URL; its user information, percent-decoded, becomes Basic authorization (RFC 7617).

        Raises:
            OptionsError: it is no http or https URL of a host; the message shows no password.
        """
        if given is None:
            return None
        if not isinstance(given, str):
            raise OptionsError("proxy", type(given).__name__, _FORM)
        shown = redact.url(given)[:200]
        scheme = _SCHEME.match(given)
        if scheme is None or scheme[1].lower() not in address.PORTS:
            what = "it has no scheme" if scheme is None else f"{scheme[1]} proxies cannot be used"
            raise OptionsError("proxy", shown, _FORM, reason=what)
        try:
            parsed = address.parse(given)
        except InvalidRequest as error:
            raise OptionsError("proxy", shown, _FORM, reason=str(error)) from None
        if parsed.target != "/" or "#" in given:
            raise OptionsError("proxy", shown, _FORM, reason="a proxy has no path, query or fragment")
        return cls(parsed.origin, basic(parsed.userinfo) if parsed.userinfo else None)

    def connect(self, target: Origin) -> bytes:
        """Return the request that asks for a tunnel to `target`."""
        host = f"[{target.host}]" if ":" in target.host else target.host
        place = f"{host}:{target.port}"
        own = f"Proxy-Authorization: {self.authorization}\r\n" if self.authorization else ""
        return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{own}\r\n".encode()

    def __str__(self) -> str:
        return self.origin.text


class Tunnel(asyncio.Protocol):
    """The first exchange on a connection to a proxy.

    Nobody but the proxy speaks in it: a target waits for the client's first byte, so bytes that follow the proxy's answer
    are no tunnel's.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._failure: ProxyFailed | None = None

    async def open(self, request: bytes) -> asyncio.Transport:
        """Send the request for a tunnel and return the transport once it is open.

        Raises:
            ProxyFailed: the proxy refuses, hangs up or answers with something else.
        """
        transport = self._transport
        assert transport is not None
        transport.write(request)
        if not self._over:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._failure is None and transport.is_closing():
            self._failure = ProxyFailed("it hung up")
        if self._failure is not None:
            raise self._failure
        return transport

    def abort(self) -> None:
        """Close the connection at once, whatever runs on it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take up the connection."""
        self._transport = cast("asyncio.Transport", transport)  # what a loop passes here need not inherit from it

    def data_received(self, data: bytes) -> None:
        """Read the answer."""
        self._received += data
        if self._over:
            self._failure = self._failure or ProxyFailed("it sent more than an answer")
            return
        try:
            over = self._read()
        except ProxyFailed as error:
            self._end(error)
        else:
            if over:
                self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        self._end(ProxyFailed(f"it hung up{f': {exc}' if exc else ''}"))

    def _read(self) -> bool:
        """Tell whether the tunnel is open; interim answers are passed over."""
        while self._received:
            if self._received[: len(_START)] != _START[: len(self._received)]:
                raise ProxyFailed("it answered with something that is no HTTP")
            end = _END.search(self._received)
            if end is None:
                if len(self._received) > MAX_ANSWER:
                    raise ProxyFailed(f"it answered with more than {MAX_ANSWER} bytes of headers")
                return False
            code = _code(bytes(self._received[: end.start()]))
            del self._received[: end.end()]
            if code >= 200:
                _check(code)
                if self._received:
                    raise ProxyFailed("it sent more than an answer")
                return True
        return False

    def _end(self, failure: ProxyFailed | None = None) -> None:
        if self._over:
            return
        self._over, self._failure = True, failure
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _code(head: bytes) -> int:
    found = _STATUS.match(head.split(b"\n", 1)[0])
    if found is None:
        raise ProxyFailed("it answered with something that is no HTTP")
    return int(found[1])


def _check(code: int) -> None:
    """Refuse what opens no tunnel; any 2xx does."""
    if 200 <= code < 300:
        return
    try:
        phrase = HTTPStatus(code).phrase
    except ValueError:
        phrase = ""
    hint = "; give user and password in the proxy's URL" if code == 407 else ""
    raise ProxyFailed(f"it answered {code} {phrase}".rstrip() + hint, str(code))
