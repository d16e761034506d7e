"""Cookies: a jar that is filled from answers and asked for each request, by the rules of RFC 6265bis.

A cookie goes back to the host that set it, or to the domain that it names and the hosts below; under its path; when it
is `Secure`, over https alone; until it expires. Ports and schemes do not tell hosts apart (section 8.5), but over http
no secure cookie is set or replaced. A domain that hosts of different owners share takes no cookies: one without a dot,
and one like `co.uk`; there is no list of all such suffixes here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from comity import redact
from comity.client.address import Address
from comity.client.cookie_text import SetCookie, read
from comity.client.headers import Headers
from comity.client.request import Request
from comity.client.response import Response, mask_cookies
from comity.engine.call import Exchange
from comity.engine.fork import restart_in_children
from comity.errors import OptionsError
from comity.policy.units import NS

MOST = 3000
MOST_OF_A_DOMAIN = 180
LONGEST_LIFE = 400 * 86_400 * NS
"""Ns that a cookie lives at most, whatever it says (section 5.5)."""

Key = tuple[str, str, bool]

_SHARED = frozenset({"ac", "co", "com", "edu", "go", "gov", "gob", "mil", "ne", "net", "nom", "or", "org"})
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f;]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """One cookie; its value is in no repr, nor its path, by default one that was asked for.

    Args:
        name, value: as they are sent.
        domain: the host that set it, or the domain that it names.
        path: below which it is sent.
        host_only: it goes to `domain` itself and to no host below.
        secure: it goes over https alone.
        expires: seconds since the epoch; None when the server named no time, then it lives as long as the jar.
    """

    name: str
    value: str = field(repr=False)
    domain: str
    path: str = field(default="/", repr=False)
    host_only: bool = True
    secure: bool = False
    expires: float | None = None
    made: int = field(default=0, repr=False, compare=False)

    def goes_to(self, address: Address) -> bool:
        """Return whether it belongs to a request to `address`, as far as host, scheme and path say."""
        host = address.origin.host
        there = host == self.domain if self.host_only else _within(host, self.domain)
        return there and _below(address.path, self.path) and (not self.secure or address.origin.scheme == "https")


class Cookies:
    """A jar. Clients may share one, in any number of loops and threads; a client is given its own by `cookies=True`.

    Example:
        >>> jar = Cookies()
        >>> jar.set("session", "s3cret", domain="api.example")
        >>> jar
        <Cookies, 1 of 1 domain>
        >>> [cookie.name for cookie in jar]
        ['session']
    """

    def __init__(self) -> None:
        self._kept: dict[str, dict[Key, Cookie]] = {}
        self._size = 0
        self._numbers = count(1)
        self.restart()
        restart_in_children(self)

    def restart(self) -> None:
        """Take a new lock, in a child process."""
        self._lock = threading.RLock()

    def set(self, name: str, value: str, *, domain: str, path: str = "/", secure: bool = False) -> None:
        """Put a cookie in; it lives as long as the jar.

        Args:
            name: as it is sent.
            value: likewise.
            domain: the host that it is for; with a dot in front also the hosts below it.
            path: below which it is sent.
            secure: it goes over https alone.

        Raises:
            OptionsError: a part cannot be sent; the message does not show the value.
        """
        parts: tuple[tuple[str, object], ...] = (("name", name), ("value", value), ("domain", domain), ("path", path))
        for option, text in parts:
            if not isinstance(text, str) or _FORBIDDEN.search(text) or not (text or option == "value"):
                raise OptionsError(option, redact.MASK, "a text without control characters and ';'")
        host, host_only = _bare(domain), not domain.startswith(".")
        cookie = Cookie(name=name, value=value, domain=host, path=path, host_only=host_only, secure=secure)
        with self._lock:
            self._put(cookie)

    def get(self, name: str, domain: str | None = None) -> str | None:
        """Return the value of the cookie of a name, None when there is none; of several, of the one made last."""
        where = None if domain is None else _bare(domain)
        found = [each for each in self if each.name == name and where in {None, each.domain}]
        return max(found, key=lambda each: each.made).value if found else None

    def clear(self, domain: str | None = None) -> None:
        """Forget the cookies of a domain, or all."""
        with self._lock:
            for each in list(self._kept) if domain is None else [_bare(domain)]:
                self._size -= len(self._kept.pop(each, ()))

    def __iter__(self) -> Iterator[Cookie]:
        with self._lock:
            return iter([cookie for each in self._kept.values() for cookie in each.values()])

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        domains = len(self._kept)
        return f"<Cookies, {len(self)} of {domains} domain{'s' * (domains != 1)}>"

    # ---- what a client asks --------------------------------------------------------------------

    def header(self, address: Address, wall: int) -> str:
        """Return the Cookie field for a request, "" when there is nothing to send (section 5.8.3).

        Args:
            address: where it goes.
            wall: the present, ns since the epoch.
        """
        with self._lock:
            found = [cookie for domain in _domains(address.origin.host) for cookie in self._alive(domain, wall)]
        fitting = [cookie for cookie in found if cookie.goes_to(address)]
        fitting.sort(key=lambda cookie: (-len(cookie.path), cookie.made))
        return "; ".join(f"{each.name}={each.value}" if each.name else each.value for each in fitting)

    def fill(self, address: Address, fields: Iterable[str], wall: int) -> None:
        """Take up the Set-Cookie fields of an answer (section 5.7); what breaks a rule is left out.

        Args:
            address: who answered.
            fields: the values of its Set-Cookie fields.
            wall: the present, ns since the epoch.
        """
        for text in fields:
            given = read(text, wall)
            cookie = None if given is None else _accepted(given, address, wall)
            if cookie is None:
                continue
            with self._lock:
                if not cookie.secure and address.origin.scheme != "https" and self._overlays(cookie):
                    continue
                self._put(cookie)
                self._alive(cookie.domain, wall)  # one that has expired is how a server deletes it

    def dressed(self, request: Request, wall: int) -> Request:
        """Return a request with its cookies, unless it has a Cookie header of its own; its answer shows what it sets."""
        field = "" if "cookie" in request.headers else self.header(request.address, wall)
        headers = Headers((*request.headers.pairs, ("Cookie", field))) if field else request.headers
        return request.altered(headers=headers, expose_cookies=True)

    def take(self, exchange: Exchange[Response], wall: int) -> None:
        """Take up the cookies of an answer, and mask them in it unless the caller wants to see them."""
        response = exchange.value
        if response is None:
            return
        self.fill(response.request.address, response.headers.get_list("set-cookie"), wall)
        if not response.request.expose_cookies:
            response.headers = mask_cookies(response.headers)

    # ---- helpers, under the lock ---------------------------------------------------------------

    def _put(self, cookie: Cookie) -> None:
        of_domain = self._kept.setdefault(cookie.domain, {})
        key = (cookie.name, cookie.path, cookie.host_only)
        old = of_domain.get(key)
        self._size += old is None
        of_domain[key] = replace(cookie, made=next(self._numbers) if old is None else old.made)
        if len(of_domain) > MOST_OF_A_DOMAIN:
            self._forget(min(of_domain.values(), key=_made))
        if self._size > MOST:  # a tenth at once, so that a full jar is not searched for every new cookie
            for each in sorted(self, key=_made)[: MOST // 10]:
                self._forget(each)

    def _forget(self, cookie: Cookie) -> None:
        of_domain = self._kept[cookie.domain]
        del of_domain[cookie.name, cookie.path, cookie.host_only]
        self._size -= 1
        if not of_domain:
            del self._kept[cookie.domain]

    def _alive(self, domain: str, wall: int) -> list[Cookie]:
        """Return the cookies of a domain and forget those that have expired."""
        kept = list(self._kept.get(domain, {}).values())
        dead = [each for each in kept if each.expires is not None and each.expires * NS <= wall]
        for each in dead:
            self._forget(each)
        return [each for each in kept if each not in dead] if dead else kept

    def _overlays(self, cookie: Cookie) -> bool:
        """Return whether a cookie would stand before a secure one of its name (section 5.7, step 15)."""
        return any(
            each.secure
            and each.name == cookie.name
            and (_within(each.domain, cookie.domain) or _within(cookie.domain, each.domain))
            and _below(cookie.path, each.path)
            for each in self
        )


def jar_of(given: object) -> Cookies | None:
    """Return the jar of a client's `cookies` option.

    Raises:
        OptionsError: it is neither a truth value nor a jar.
    """
    if isinstance(given, Cookies):
        return given
    if isinstance(given, bool):
        return Cookies() if given else None
    raise OptionsError("cookies", redact.MASK, "True, False or a comity.Cookies()")


def _accepted(given: SetCookie, address: Address, wall: int) -> Cookie | None:
    """Return the cookie that an origin may set by this field, or None."""
    origin, domain = address.origin, given.domain
    host_only = not domain or (domain == origin.host and (_is_address(domain) or _is_shared(domain)))
    if domain and not host_only and (not _within(origin.host, domain) or _is_shared(domain)):
        return None
    if given.secure and origin.scheme != "https":
        return None
    prefix = given.name.lower()
    if prefix.startswith(("__secure-", "__host-")) and not given.secure:
        return None
    if prefix.startswith("__host-") and (domain or given.path != "/"):
        return None
    return Cookie(
        name=given.name,
        value=given.value,
        domain=domain if not host_only else origin.host,
        path=given.path or _default_path(address.path),
        host_only=host_only,
        secure=given.secure,
        expires=None if given.expires is None else min(given.expires, wall + LONGEST_LIFE) / NS,
    )


def _bare(domain: str) -> str:
    return domain.lower().removeprefix(".")


def _made(cookie: Cookie) -> int:
    return cookie.made


def _domains(host: str) -> list[str]:
    """Return a host and, for a name, every domain above it."""
    if _is_address(host):
        return [host]
    labels = host.split(".")
    return [".".join(labels[at:]) for at in range(len(labels))]


def _within(host: str, domain: str) -> bool:
    return host == domain or (host.endswith(f".{domain}") and not _is_address(host))


def _below(here: str, path: str) -> bool:
    """Return whether a request's path lies at or below a cookie's (section 5.1.4)."""
    return here == path or (here.startswith(path) and (path.endswith("/") or here[len(path)] == "/"))


def _default_path(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()


def _is_shared(domain: str) -> bool:
    first, dot, last = domain.partition(".")
    return not dot or ("." not in last and len(last) == 2 and first in _SHARED)
