"""User agent: who a client says it is, with an address to write to when it is a nuisance (RFC 9110 section 10.1.5)."""

from __future__ import annotations

import re

import comity
from comity import redact
from comity.errors import OptionsError

_MAIL = re.compile(r"[!#-'*+\-./0-9=?A-Z^_`a-z{|}~]{1,64}@[A-Za-z0-9.\-]{1,253}")
_URL = re.compile(r"https?://[!#-'*-;=?-\[\]-~]{1,500}")


def user_agent(contact: object) -> str:
    """Return the value of the header.

    Args:
        contact: a mail address or an http(s) URL; None for none.

    Raises:
        OptionsError: it is neither.

    Example:
        >>> user_agent("me@example.com").partition(" ")[2]
        '(+mailto:me@example.com)'
    """
    name = f"comity/{comity.__version__}"
    if contact is None:
        return name
    if isinstance(contact, str) and _MAIL.fullmatch(contact):
        return f"{name} (+mailto:{contact})"
    if isinstance(contact, str) and _URL.fullmatch(contact) and "@" not in contact:
        return f"{name} (+{contact})"
    shown = redact.text(contact) if isinstance(contact, str) else contact
    raise OptionsError(
        "contact", shown, 'a mail address or a URL, such as "me@example.com" or "https://example.com/bot"'
    )
