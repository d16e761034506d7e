"""Basic: user and password as a header carries them (RFC 7617)."""

from __future__ import annotations

from base64 import b64encode


def basic(pair: bytes) -> str:
    """Return the value of Authorization or Proxy-Authorization.

    Args:
        pair: user and password with a colon between them; without one, the user, whose password is empty then.

    Example:
        >>> basic(b"me:secret")
        'Basic bWU6c2VjcmV0'
    """
    # The scheme as everybody writes it: some proxies compare it with case, against RFC 9110 section 11.1.
    return f"Basic {b64encode(pair if b':' in pair else pair + b':').decode()}"
