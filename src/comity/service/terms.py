"""Terms: what a delivery's stored `options` say: how it is to be sent, and whom to tell of its end."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated

import msgspec
from msgspec import Meta

from comity.errors import StoreError
from comity.service.retry_rules import BACKOFF_MS, LEAST_BACKOFF_MS, MOST_BACKOFF_MS, MOST_RETRIES, RETRIES, RetryRules
from comity.store.differing import differing
from comity.store.records import Mode


def camel(name: str) -> str:
    """Return a Python name as the API writes it.

    Example:
        >>> camel("max_retries"), camel("strict_4xx")
        ('maxRetries', 'strict4xx')
    """
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


MaxRetries = Annotated[
    int, Meta(ge=1, le=MOST_RETRIES, description="Sends after the first.", extra_json_schema={"default": RETRIES})
]
BackoffMs = Annotated[
    int,
    Meta(
        ge=LEAST_BACKOFF_MS,
        le=MOST_BACKOFF_MS,
        description="The wait before retry n is backoffMs * 2^n * U[0.8, 1.2].",
        extra_json_schema={"default": BACKOFF_MS},
    ),
]
Strict4xx = Annotated[
    bool,
    Meta(
        description="Let every 4xx be final; else 408, 425 and 429 are retried.", extra_json_schema={"default": False}
    ),
]
Signed = Annotated[
    bool,
    Meta(
        description="Sign each attempt as callbacks are, by Standard Webhooks with the service's own secrets.",
        extra_json_schema={"default": False},
    ),
]
TimeoutMs = Annotated[int, Meta(ge=1, le=86_400_000, description="The longest time of one attempt.")]


class Terms(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """What a submission asked for beyond the request itself; names on the outside are those of the API.

    All of them are stored: another release may have other defaults, and changes nothing of what was accepted.

    Args:
        max_retries, backoff_ms, strict_4xx: see `RetryRules`.
        timeout_ms: for one attempt; None leaves the worker's own.
        signed: each attempt is signed as it is sent.
        callback_url: who is told of the end, or None.
        policy: the name of the policy that gave what the submission did not say itself, or None.
    """

    max_retries: int = RETRIES
    backoff_ms: int = BACKOFF_MS
    strict_4xx: bool = False
    timeout_ms: int | None = None
    signed: bool = False
    callback_url: str | None = None
    policy: str | None = None

    @classmethod
    def read(cls, options: bytes) -> Terms:
        """Return the terms of a stored delivery.

        Raises:
            StoreError: what is stored is none of them.
        """
        try:
            return msgspec.json.decode(options, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(f"a delivery's options cannot be read: {error}", reason="corrupt") from error

    def stored(self) -> bytes:
        """Return the terms as they are stored."""
        return msgspec.json.encode(self)

    def rules(self, mode: Mode) -> RetryRules:
        """Return the rules of retrying.

        Raises:
            OptionsError: a value cannot be used.
        """
        return RetryRules(
            max_retries=self.max_retries, backoff_ms=self.backoff_ms, strict_4xx=self.strict_4xx, delivery=mode
        )


class Asked(Terms, frozen=True, kw_only=True, rename=camel):
    """Terms as a submission said them: what it leaves to the defaults is no part of it, and so not of its fingerprint."""

    def stored(self, said: Container[str] = ()) -> bytes:
        """Return what differs from the defaults, and the fields in `said`."""
        return msgspec.json.encode(differing(self, said))
