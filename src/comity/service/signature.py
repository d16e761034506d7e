"""Signature: who sent a webhook, and that nobody changed it on the way (Standard Webhooks 1.0).

    signed               {webhook-id}.{webhook-timestamp}.{body}, by HMAC-SHA256
    webhook-id           the same over all attempts of one delivery
    webhook-timestamp    of the attempt, seconds since the epoch
    webhook-signature    v1,BASE64, one for each secret, with blanks between them

While a secret is changed, both the new one and the old one sign, and a receiver that knows either is content.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

from comity.errors import BadSignature, OptionsError
from comity.policy.units import NS, Seconds, required, seconds

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"

FIELDS = frozenset({ID, TIMESTAMP, SIGNATURE})
"""The names of all three."""

_PREFIX = "whsec_"
_LEAST = 24
_SECRET = f'"{_PREFIX}" and the base64 of at least {_LEAST} random bytes'
_WHERE = "comity serve and worker take them from COMITY_CALLBACK_SECRETS"
_ID = re.compile(r"[!-\-/-~]{1,200}")  # a full stop would let the id and the timestamp be told apart in two ways
_SECONDS = re.compile(r"[0-9]{1,12}")


def new_secret() -> str:
    """Return a new random secret of 32 bytes."""
    return _PREFIX + b64encode(secrets.token_bytes(32)).decode()


class Signer:
    """Signs webhooks and checks signatures, with one secret or, while it is changed, with several.

    Args:
        keys: the secrets, the newest first: "whsec_" and the base64 of at least 24 bytes.

    Raises:
        OptionsError: there is none, or one is no such secret; the message does not show it.

    Example:
        >>> signer = Signer(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
        >>> signer.verify(signer.headers("msg_1", 0, b"{}"), b"{}", now=0)
    """

    def __init__(self, keys: Sequence[str]) -> None:
        given: object = keys
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise OptionsError("secrets", None, f"a list of secrets, each {_SECRET}", _WHERE, secret=True)
        self._keys = tuple(_key(each) for each in given)

    def headers(self, delivery: str, at: int, payload: bytes) -> dict[str, str]:
        """Return the three headers of an attempt.

        Args:
            delivery: its id, printable ASCII without a full stop, at most 200 characters.
            at: when the attempt is made, ns since the epoch.
            payload: the body, byte for byte as it is sent.

        Raises:
            OptionsError: the id is no such text.
        """
        if not _ID.fullmatch(delivery):
            raise OptionsError(ID, delivery, "1 to 200 printable ASCII characters without blanks and full stops")
        stamp = str(at // NS)
        signatures = self._signatures(delivery, stamp, payload)
        return {ID: delivery, TIMESTAMP: stamp, SIGNATURE: " ".join(f"v1,{each.decode()}" for each in signatures)}

    def verify(self, headers: Mapping[str, str], payload: bytes, *, now: int, tolerance: Seconds = 300.0) -> None:
        """Check that a webhook is from somebody who knows one of the secrets, and new.

        Args:
            headers: of the request; the case of their names does not matter.
            payload: its body, byte for byte as it came.
            now: the present, ns since the epoch.
            tolerance: how far the timestamp may be from it, seconds, either way. A replay within that time is found by
                remembering the ids.

        Raises:
            BadSignature: it is not.
            OptionsError: `tolerance` is no duration.
        """
        longest = required(tolerance, "tolerance")
        given = {name.lower(): value for name, value in headers.items()}
        delivery, stamp, signature = (given.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
        if not _ID.fullmatch(delivery) or not _SECONDS.fullmatch(stamp):
            raise BadSignature(f"the webhook has no usable {ID} and {TIMESTAMP}")
        # All are compared, each in constant time, so that the time it takes tells nothing about any of them.
        claimed = [
            text.encode()
            for version, _, text in (each.partition(",") for each in signature.split(" "))
            if version == "v1"
        ]
        expected = self._signatures(delivery, stamp, payload)
        if not sum(hmac.compare_digest(one, other) for one in claimed for other in expected):
            raise BadSignature("no signature of the webhook is by a secret that is known here, or it was changed")
        if abs(now - int(stamp) * NS) > seconds(longest):
            raise BadSignature(f"the webhook's {TIMESTAMP} is more than {longest:g} s from now")

    def _signatures(self, delivery: str, stamp: str, payload: bytes) -> list[bytes]:
        signed = f"{delivery}.{stamp}.".encode() + payload
        return [b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in self._keys]


def _key(secret: object) -> bytes:
    try:
        key = b64decode(str(secret).removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not isinstance(secret, str) or not secret.startswith(_PREFIX) or len(key) < _LEAST:
        raise OptionsError("secrets", None, _SECRET, _WHERE, secret=True)
    return key
