"""Names of options: a misspelt keyword is an OptionsError that says which name is nearest, and shows no secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from comity import redact
from comity.errors import OptionsError

T = TypeVar("T")


_ELSEWHERE = {
    **dict.fromkeys(("measured", "kind", "spread", "burst"), 'it belongs to a rate: rate=Rate("50/5s", {}=...)'),
    **dict.fromkeys(
        ("attempts", "retries", "refusals", "backoff", "max_retry_after", "over_cap", "hold_slot"),
        "it belongs to the retries: retry=Retry({}=...)",
    ),
    **dict.fromkeys(
        ("connect", "send", "response", "idle", "attempt"), "it is a limit of time: timeout=Timeout({}=...)"
    ),
    **dict.fromkeys(
        ("ca", "ca_only", "cert", "passphrase", "server_name", "verify"),
        "it belongs to a client's TLS: tls=TLS({}=...)",
    ),
    **dict.fromkeys(("tls", "proxy", "max_body"), "it belongs to a client: AsyncClient({}=...)"),
    **dict.fromkeys(("token", "api_key", "bearer"), "say auth=Bearer(...), or headers={{...}} for a header of its own"),
    "har": 'a client records one while it is open: with client.har("calls.har"): ...',
    "stream": "an answer is streamed by client.stream(method, url)",
    "limits": "say max_connections=..., and concurrency=... for each host",
    "read": "say response=... for the wait for an answer, idle=... for that between its pieces",
    "write": "say send=...",
    "pool": "the wait for a turn is no part of an attempt; say queue_timeout=... or deadline=... of a client",
    "http2": "comity speaks HTTP/1.1",
    "trust_env": "the environment is never asked; say proxy=... and tls=TLS(...)",
    "event_hooks": "say on_event=...",
}
"""Options that are often looked for one level too high or by the name of another library, and where they belong."""


def unusable(option: str, value: object, allowed: str = "", hint: str = "", *, reason: str = "") -> OptionsError:
    """Return an OptionsError that shows no secret: none inside the value, and no value of an option that is one."""
    if redact.is_secret(option):
        return OptionsError(option, value, allowed, hint, reason=reason, secret=True)
    plain = redact.url(value) if isinstance(value, str) and "@" in value else value
    shown = redact.text(plain if isinstance(plain, str) else repr(plain))
    same = shown == (value if isinstance(value, str) else repr(value))
    return OptionsError(option, value if same else shown, allowed, hint, reason=reason)


def type_of(value: object) -> str:
    """Return what a value is, for a message that must not show it: "an int", "a list", "None"."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def check_names(owner: str, given: Mapping[str, object], allowed: Iterable[str]) -> None:
    """Refuse a keyword that `owner` does not have.

    Args:
        owner: what takes the options, for the message ("Policy", "AsyncClient").
        given: the keywords and their values.
        allowed: the names that there are.

    Raises:
        OptionsError: a name is unknown; its hint is the nearest name. What it was given may be anything, a password
            among it, and is not shown.
    """
    names = set(allowed)
    for name, value in given.items():
        if name not in names:
            hint = _ELSEWHERE[name].format(name) if name in _ELSEWHERE else nearest(name, names)
            raise OptionsError(name, value, hint=hint, reason=f"{owner} has no such option", secret=True)


def check_choice(value: object, option: str, allowed: Iterable[str]) -> None:
    """Refuse a word that is not among the allowed ones.

    Raises:
        OptionsError: it is not; its hint is the nearest word.
    """
    words = tuple(allowed)
    if not isinstance(value, str) or value not in words:
        listed = " or ".join(f'"{word}"' for word in words)
        raise unusable(option, value, f"one of {listed}", nearest(value, words) if isinstance(value, str) else "")


def named_options(cls: type[T]) -> type[T]:
    """Let an option class name the nearest option when a keyword is unknown."""
    init: Callable[..., None] = cls.__init__
    names = tuple(signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: T, *args: Any, **options: Any) -> None:
        check_names(cls.__name__, options, names)
        init(self, *args, **options)

    cls.__init__ = checked  # type: ignore[method-assign,assignment]
    return cls


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the question whether the nearest name was meant; "" when none is near."""
    from difflib import get_close_matches  # needed for a mistake only

    close = get_close_matches(name.lower(), sorted(names), n=1)
    return f"did you mean {close[0]}?" if close else ""
