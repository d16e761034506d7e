"""Vault: the values of headers that hold secrets, sealed before they are stored and opened when they are sent.

    sealed      by AES-SIV with a 256-bit key (RFC 5297)
    bound to    the header's name, and the delivery's method and URL: moved elsewhere it does not open, so who can write
                to the database cannot have a secret sent to an address of his own
    key         its id stands beside each value, so that several are in use while they are changed; the first one seals

Any number of values may be sealed under one key. GCM with random nonces would end at 2^32 (NIST SP 800-38D, section 8.3),
which a busy service reaches within a week. No associated datum is empty: OpenSSL passed over those before 3.0.10
(CVE-2023-2975).
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from comity import redact
from comity.errors import ComityError, StoreError
from comity.store.records import Claim, NewDelivery

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_NONCE = 16


class KeyMissing(ComityError):
    """A stored secret was sealed with a key that is not configured here.

    Attributes:
        key: its id.
    """

    def __init__(self, key: str) -> None:
        super().__init__(
            f"a stored header was sealed with the key {key}, which is not configured: it has to stand in "
            "COMITY_ENCRYPTION_KEYS of every process, behind newer ones, until nothing sealed with it is kept"
        )
        self.key = key


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A stored value: the id of the key, and what only this key opens."""

    key: str
    sealed: bytes


Stored = dict[str, str | Sealed]
"""Headers as they are stored."""

_DECODER = msgspec.json.Decoder(Stored)


class Vault:
    """Knows which headers hold secrets, and the keys.

    Args:
        keys: of 32 random bytes each, the newest first; without any, secrets are stored as they came.
        names: headers that hold secrets besides those whose names say so (`comity.redact`); case does not matter.

    Attributes:
        ids: of the keys, in their order; they tell nothing about them.

    Example:
        >>> Vault(names=["X-Customer"]).is_secret("x-customer"), Vault().is_secret("Authorization")
        (True, True)
    """

    def __init__(self, keys: Sequence[bytes] = (), names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._keys = {key.id: key for key in map(_Key, keys)}
        self.ids = tuple(self._keys)

    def is_secret(self, name: str) -> bool:
        """Return whether a header's value is a secret."""
        return name.lower() in self._names or redact.is_secret(name)

    def holds(self, new: NewDelivery) -> bool:
        """Return whether there are secrets among a delivery's headers."""
        return any(self.is_secret(name) for name in _read(new.headers))

    def seal(self, new: NewDelivery) -> NewDelivery:
        """Return a delivery whose secrets are sealed, if there is a key.

        It stays the same delivery for whoever submits it again, also under a newer key, or when there was none at first:
        its fingerprints are of what was given, and each key has its own. A bare digest beside a sealed secret would let
        anybody who reads the database try short secrets out.
        """
        if not self._keys:
            return new
        given = _read(new.headers)
        newest = next(iter(self._keys.values()))
        target = _target(new)
        stored: Stored = {
            name: newest.seal(value, target, name)
            if isinstance(value, str) and value and self.is_secret(name)
            else value
            for name, value in given.items()
        }
        by_keys = [key.digest(new.fingerprint) for key in self._keys.values()]
        bare = [new.fingerprint]
        fingerprints = by_keys + bare if stored != given else bare + by_keys
        return replace(new, headers=msgspec.json.encode(stored), fingerprints=tuple(fingerprints))

    def open(self, claim: Claim) -> dict[str, str]:
        """Return the headers of a claim as they are to be sent.

        Raises:
            KeyMissing: a key is not configured.
            StoreError: what is stored was not sealed for this header of this delivery, or is no headers.
        """
        stored = _read(claim.headers)
        return {
            name: value if isinstance(value, str) else self._opened(value, _target(claim), name)
            for name, value in stored.items()
        }

    def missing(self, headers: bytes) -> set[str]:
        """Return the ids of the keys that stored headers need and that are not configured.

        Raises:
            StoreError: what is stored is no headers.
        """
        stored = _read(headers)
        return {each.key for each in stored.values() if isinstance(each, Sealed)} - self._keys.keys()

    def _opened(self, sealed: Sealed, target: bytes, name: str) -> str:
        key = self._keys.get(sealed.key)
        if key is None:
            raise KeyMissing(sealed.key)
        return key.open(sealed, target, name)


class _Key:
    """One of them: what is made of it for each use."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        self._cipher: AESSIV = AESSIV(_derived(key, b"comity header", 64))
        self._digests = _derived(key, b"comity fingerprint", 32)
        self.id = _derived(key, b"comity key id", 8).hex()

    def seal(self, value: str, target: bytes, name: str) -> Sealed:
        nonce = os.urandom(_NONCE)
        return Sealed(key=self.id, sealed=nonce + self._cipher.encrypt(value.encode(), _bound_to(target, name, nonce)))

    def open(self, sealed: Sealed, target: bytes, name: str) -> str:
        from cryptography.exceptions import InvalidTag

        nonce, rest = sealed.sealed[:_NONCE], sealed.sealed[_NONCE:]
        try:
            return self._cipher.decrypt(rest, _bound_to(target, name, nonce)).decode()
        except (InvalidTag, ValueError):
            told = f"the stored header {name} was changed, or sealed for another header or target"
            raise StoreError(told, reason="corrupt") from None

    def digest(self, fingerprint: bytes) -> bytes:
        return hmac.digest(self._digests, fingerprint, "sha256")


def _read(headers: bytes) -> Stored:
    try:
        return _DECODER.decode(headers)
    except msgspec.MsgspecError as error:
        raise StoreError(f"a delivery's headers cannot be read: {error}", reason="corrupt") from None


def _derived(key: bytes, use: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    return HKDFExpand(algorithm=SHA256(), length=length, info=use).derive(key)


def _target(of: NewDelivery | Claim) -> bytes:
    return f"{of.method} {of.url}".encode()


def _bound_to(target: bytes, name: str, nonce: bytes) -> list[bytes]:
    return [target, name.lower().encode(), nonce]  # the nonce last (RFC 5297, section 3)
