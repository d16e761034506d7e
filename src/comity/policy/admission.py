"""Admission: whom a step of the gate lets start, whom it turns away, and when to ask again."""

from __future__ import annotations

import msgspec

from comity.policy.ticket import Ticket


class Admission(msgspec.Struct, frozen=True):
    """What a step of the gate decided.

    Args:
        granted: who starts now, in order.
        refused: who need not wait any longer (EXPIRED, BLOCKED or CLOSED).
        wake_at: when to ask again if nothing else happens before, ns, or NEVER.
    """

    granted: list[Ticket]
    refused: list[Ticket]
    wake_at: int
