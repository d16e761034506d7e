"""Limits: what a lane may be told about its pace, as the API writes it and the store keeps it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from comity.errors import StoreError
from comity.policy.options import Policy
from comity.policy.units import integer
from comity.service.terms import camel


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel, omit_defaults=True):
    """Limits of a lane; what is left out is not limited beyond the service's own."""

    rate: Annotated[str | list[str] | None, Meta(description='Starts per time, such as "50/5s", or several.')] = None
    concurrency: Annotated[int | None, Meta(description="Sends in flight at once, at least 1.")] = None
    min_gap_ms: Annotated[int | None, Meta(description="The least time between two starts.")] = None

    @classmethod
    def read(cls, stored: bytes) -> Limits:
        """Return a lane's stored limits.

        Raises:
            StoreError: what is stored is none.
        """
        try:
            return msgspec.json.decode(stored or b"{}", type=cls)
        except msgspec.MsgspecError as error:
            raise StoreError(f"a lane's limits cannot be read: {error}", reason="corrupt") from error

    def stored(self) -> bytes:
        """Return the limits as they are stored, when they can be used.

        Raises:
            OptionsError: a value cannot be.
        """
        self.policy(Policy())
        return msgspec.json.encode(self)

    def policy(self, base: Policy) -> Policy:
        """Return a policy with these limits in place of its own.

        Raises:
            OptionsError: a value cannot be used.
        """
        given: dict[str, Any] = {"rate": self.rate, "concurrency": self.concurrency}
        if self.min_gap_ms is not None:
            given["min_gap"] = integer(self.min_gap_ms, "min_gap_ms", 0) / 1_000
        return base.replace(**{name: value for name, value in given.items() if value is not None})
