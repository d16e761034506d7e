"""Security: who may do what.

With a token file every request needs `Authorization: Bearer TOKEN` (RFC 6750) and the scope of what it does. Without one
the service listens on loopback alone and lets everybody on this machine in, but no web page: a page of another site that
a browser shows, or a name that was pointed at this machine (DNS rebinding), is told apart by Host, Origin and Fetch
Metadata.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from starlette.requests import Request

from comity.errors import OptionsError
from comity.web.problem import Refusal

Scope = Literal["submit", "read", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

WHO = "comity.who"
"""Where a scope has the name of the token that a request came with."""

_LEAST = 16
_FORM = '"NAME SCOPES TOKEN" such as "billing submit,read 5f1c..."; SCOPES of submit, read, admin (all of it)'


class Holder(NamedTuple):
    """Whose a token is, and what it may do."""

    name: str
    scopes: frozenset[Scope]


class Tokens:
    """The tokens that are known; of each only its digest is kept.

    Args:
        lines: as of a token file: `NAME SCOPES TOKEN`, where TOKEN may be `sha256:` and its digest in hexadecimal; empty
            ones and those that begin with `#` say nothing.
        source: what to call it in messages.

    Raises:
        OptionsError: a line is none of these, or there is none at all; it tells no token.
    """

    def __init__(self, lines: Iterable[str], source: str = "token file") -> None:
        known = [
            _entry(line.split(), f"{source}:{number}")
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not known:
            raise OptionsError(source, None, _FORM, reason="it holds no token", secret=True)
        self._known = known

    @classmethod
    def of(cls, path: Path) -> Tokens:
        """Read a token file.

        Raises:
            OptionsError: it cannot be read, or as above.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionsError("token_file", str(path), reason=str(error)) from None
        return cls(text.splitlines(), str(path))

    def holder(self, token: str) -> Holder | None:
        """Return whose a token is; None when it is unknown. It takes as long for any token."""
        digest, found = sha256(token.encode()).digest(), None
        for known, holder in self._known:
            if hmac.compare_digest(known, digest):
                found = holder
        return found


def check(request: Request, tokens: Tokens | None, scope: Scope | None) -> None:
    """Let a request pass, or not.

    Args:
        request: what came; its scope is told whose token it has (WHO).
        tokens: None where only this machine can connect.
        scope: what it needs; None for what everybody may know.

    Raises:
        Refusal: 401 without a known token, 403 without the scope or from a web page.
    """
    if tokens is None:
        _check_local(request)
        return
    if scope is None:
        return
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    holder = tokens.holder(token.strip()) if kind.lower() == "bearer" else None
    if holder is None:
        told = "a known token is needed: Authorization: Bearer TOKEN"
        raise Refusal(401, told, headers={"WWW-Authenticate": 'Bearer realm="comity"'})
    request.scope[WHO] = holder.name
    if scope not in holder.scopes and "admin" not in holder.scopes:
        challenge = f'Bearer realm="comity", error="insufficient_scope", scope="{scope}"'
        raise Refusal(403, f"the token has no scope {scope}", headers={"WWW-Authenticate": challenge})


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches what listens on a host."""
    bare = host.strip("[]")
    if bare == "localhost":
        return True
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return False


def _check_local(request: Request) -> None:
    fields = request.headers
    host, origin = fields.get("host", ""), fields.get("origin")
    same = origin is None or origin.partition("://")[2] == host
    if not _is_local(host) or not same or fields.get("sec-fetch-site") in {"cross-site", "same-site"}:
        raise Refusal(403, "without tokens only programs on this machine are let in, and no pages of other sites")


@lru_cache(maxsize=64)  # most requests come to one name
def _is_local(host: str) -> bool:
    """Tell whether a Host names this machine."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:  # brackets that do not end
        return False


def _entry(words: list[str], place: str) -> tuple[bytes, Holder]:
    if len(words) != 3:
        raise OptionsError(place, None, _FORM, secret=True)
    name, listed, token = words
    scopes = frozenset(scope for scope in SCOPES if scope in listed.split(","))
    if unknown := set(listed.split(",")) - scopes:
        raise OptionsError(place, ",".join(sorted(unknown)), "scopes of submit, read and admin")
    if token.startswith("sha256:"):
        try:
            digest = bytes.fromhex(token.removeprefix("sha256:"))
        except ValueError:
            digest = b""
        if len(digest) != 32:
            raise OptionsError(place, None, "sha256: and 64 hexadecimal digits", secret=True)
        return digest, Holder(name, scopes)
    if len(token) < _LEAST:
        raise OptionsError(place, None, f"a token of at least {_LEAST} characters", secret=True)
    return sha256(token.encode()).digest(), Holder(name, scopes)
