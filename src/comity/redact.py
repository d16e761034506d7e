"""What is a secret, and how text is shown without it. Every repr, message, event, log line and row passes here.

Secret are: the user information of a URL; its fragment, but for fields with names; the value of a header, a query or a fragment field whose name speaks of a
secret (`api_key`, `X-Amz-Signature`, `clientSecret`); cookies; wherever it stands, what has the form of a well-known kind
of token (a JWT, `ghp_...`, a bot's token in a path). Any other secret inside a path or a body cannot be told from data;
comity shows no bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, unquote_plus

MASK = "***"

_WORDS = frozenset({
    "apikey", "accesskey", "assertion", "auth", "authorization", "bearer", "cookie", "cookies", "cred", "creds",
    "credential", "credentials", "hmac", "jwt", "otp", "pass", "passcode", "passphrase", "passwd", "password", "pwd", "sas", "secret",
    "secrets", "session", "sessionid", "sig", "sign", "signature", "token", "verifier",
})  # fmt: skip
_GLUED = re.compile(r"(?:apikey|token|secret|passw|credential|signature|sessid|sessionid|auth)$")
_OPEN = frozenset({"idempotency-key", "sec-websocket-key", "www-authenticate", "proxy-authenticate"})
_NAMED = frozenset({"authentication-info", "proxy-authentication-info"})
"""Answers that hold what the next request is proved by (RFC 7615), though their names do not say so."""
_IN_QUERIES = frozenset(
    {"code"}
)  # an authorization code (RFC 6749 section 4.1.2), a function's key; elsewhere a number
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPLIT = re.compile(r"[^a-z0-9]+")

_END_OF_AUTHORITY = re.compile(r"[/?#\\]")
_LONGEST_NAME = 256
_LAYERS = 3
"""So many times a value may be percent-encoded; what is inside more layers is masked."""

# A server chooses what these search, so each takes linear time: a word is entered at its start alone (the lookbehind)
# and never tried again shorter (the possessive "++").
_URL = re.compile(r"(?<![A-Za-z0-9+.\-])[A-Za-z0-9+.\-]++://[^\s\"'<>]+")
_TOKEN = re.compile(
    r"(?<![\w\-])(?:eyJ[\w\-]++\.eyJ[\w\-]++\.[\w\-]*+"  # a JWT (RFC 7519)
    r"|gh[oprsu]_\w{20,}+|github_pat_\w{20,}+|glpat-[\w\-]{16,}+|xox[a-z]-[\w\-]{10,}+|whsec_[\w+/=]{16,}+"
    r"|[rs]k[_\-](?:live|test|proj)[_\-][\w\-]{16,}+|(?:bot)?[0-9]{6,12}:[\w\-]{30,}+"
    r"|T[0-9A-Z]{6,12}/B[0-9A-Z]{6,12}/\w{16,}+)"
)
_LINE = re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)([\"']?\s*[:=]\s*)(b?'[^']*|b?\"[^\"]*|[^\r\n]+)")
_SCHEME = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=\-]{6,}")
_PAIR = re.compile(r"(?<![\w.%\[\]\-])([\w.%\[\]\-]++)([\"']?\s*+[:=]\s*+b?[\"']?)([^\s&;,'\"<>]+)")


def is_secret(name: str) -> bool:
    """Tell whether the value under a header, query or field name is a secret; under a name too long to tell it is."""
    return len(name) > _LONGEST_NAME or _speaks_of_a_secret(name)


def url(text: str) -> str:
    """Return a URL with its user information and the values of secret fields masked, all else byte for byte.

    It needs no valid URL: what cannot be parsed is masked rather than shown.

    Example:
        >>> url("https://me:pw@api.example/x?api_key=1234&page=2")
        'https://***@api.example/x?api_key=***&page=2'
    """
    head, mark, rest = text.partition("//")
    if not mark or not (head == "" or head.endswith(":")):
        head, mark, rest = "", "", text
    end = _END_OF_AUTHORITY.search(rest)
    size = end.start() if end else len(rest)
    authority, tail = rest[:size], rest[size:]
    before, _, port = authority.partition(":")
    if authority.rfind("@") > 0:  # before a leading one alone nothing stands that could be a secret
        authority = f"{MASK}@{authority.rpartition('@')[2]}"
    elif port and not port.isdigit() and before[:1] != "[":
        # No port, so a password. With a raw "/", "?" or "#" in it, it ends the authority early; what follows the last
        # "@" is the host.
        authority, tail = (f"{MASK}@{tail.rpartition('@')[2]}", "") if "@" in tail else (f"{before}:{MASK}", tail)
    return _TOKEN.sub(MASK, f"{head}{mark}{authority}{_fields(tail)}")


def headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return header pairs with the values of secret names, and secrets inside the other values, masked."""
    return [(name, MASK if is_secret(name) else text(value)) for name, value in pairs]


def cookies(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return an answer's header pairs with the values of `set-cookie` masked."""
    return [(name, MASK if name.lower() == "set-cookie" else value) for name, value in pairs]


def text(foreign: str) -> str:
    """Return a text that others wrote (an error message, a log line) with whatever looks like a secret masked.

    Example:
        >>> text("cannot reach http://me:pw@h/?token=abc with Authorization: Bearer abc")
        'cannot reach http://***@h/?token=*** with Authorization: ***'
    """
    shown = _TOKEN.sub(MASK, _URL.sub(lambda found: url(found[0]), foreign))
    shown = _LINE.sub(_hide_line, shown)
    shown = _SCHEME.sub(rf"\1\2{MASK}", shown)
    return _PAIR.sub(_hide_pair, shown)


@lru_cache(maxsize=4096)
def _speaks_of_a_secret(name: str) -> bool:
    plain = unquote_plus(name)
    if plain.lower() in _OPEN:
        return False
    if plain.lower() in _NAMED:
        return True
    words = [word for word in _SPLIT.split(_CAMEL.sub("-", plain).lower()) if word]
    # "key" alone is a secret at the end (api_key, Ocp-Apim-Subscription-Key), not at the start (KeyError, key_count).
    return any(word in _WORDS or _GLUED.search(word) for word in words) or words[-1:] == ["key"]


def _hide_line(found: re.Match[str]) -> str:
    value = found[3]
    quote = value[: 2 if value[:1] == "b" else 1] if value.lstrip("b")[:1] in {"'", '"'} else ""
    return f"{found[1]}{found[2]}{quote}{MASK}"


def _hide_pair(found: re.Match[str]) -> str:
    in_query = found.string[found.start() - 1 : found.start()] in {"?", "&"}
    if is_secret(found[1]) or (in_query and found[1] in _IN_QUERIES):
        return f"{found[1]}{found[2]}{MASK}"
    return f"{found[1]}{found[2]}{_value(found[3])}" if "%" in found[3] else found[0]


def _fields(tail: str) -> str:
    """Mask the values of secret fields in everything after the first "?" or "#", and what is no field behind the "#".

    A fragment is never sent, so nobody misses it; what some put there, an access token, needs no name.
    """
    start = next((at for at, char in enumerate(tail) if char in "?#"), -1)
    if start < 0:
        return tail
    query, mark, fragment = tail[start:].partition("#")
    shown = [_field(part) for part in re.split(r"([?&;])", query)]
    hidden = [_field(part) if "=" in part or part in "?#&;" else MASK for part in re.split(r"([?#&;])", fragment)]
    return "".join([tail[:start], *shown, mark, *hidden])


def _field(part: str) -> str:
    name, mark, value = part.partition("=")
    if not mark or not value:
        return part
    if is_secret(name) or name.lower() in _IN_QUERIES:
        return f"{name}={MASK}"
    return f"{name}={_value(value)}" if "%" in value or "://" in value else part


def _value(value: str) -> str:
    """Mask what is secret inside a value, such as the URL of a `next`; one without secrets stays byte for byte."""
    plain = value
    for _ in range(_LAYERS):
        plain, before = unquote_plus(plain), plain
        if plain == before:
            break
    else:
        if unquote_plus(plain) != plain:
            return MASK
    if plain == value:
        return _URL.sub(lambda found: url(found[0]), value)
    shown = text(plain)  # nothing in it is encoded, so nothing in it comes here again and on to this line
    return value if shown == plain else quote(shown, safe="*:/?")
