"""Limits: what a lane may be told about its pace, as the API writes it and the store keeps it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from comity.errors import StoreError
from comity.policy.options import Policy
from comity.policy.rate import arrivals
from comity.policy.units import integer
from comity.service.terms import camel


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel, omit_defaults=True):
    """Limits of a lane; what is left out is not limited beyond the service's own.

    A rate is what the receiver counts, so a send counts until its answer has begun and then for the length of the window:
    measured at the sender, every delay that varies would let more arrive within a window than it allows.
    """

    rate: Annotated[str | list[str] | None, Meta(description='Arrivals per time, such as "50/5s", or several.')] = None
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
        given: dict[str, Any] = {"concurrency": self.concurrency}
        if self.rate is not None:
            rates = [self.rate] if isinstance(self.rate, str) else self.rate
            given["rate"] = [arrivals(each) for each in rates]
        if self.min_gap_ms is not None:
            given["min_gap"] = integer(self.min_gap_ms, "min_gap_ms", 0) / 1_000
        return base.replace(**{name: value for name, value in given.items() if value is not None})
