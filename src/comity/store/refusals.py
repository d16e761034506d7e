"""Refusals: what a worker is told that comes too late, whatever the database."""

from __future__ import annotations

from comity.errors import LeaseLost
from comity.store.records import Claim, Lease


def rescued(lease: Lease) -> LeaseLost:
    """Return what a worker is told whose lease is gone."""
    return LeaseLost(f"the lease {lease.id} of {lease.worker} was rescued; register anew")


def not_owned(origin: str, lease: Lease) -> LeaseLost:
    """Return what a worker is told whose origin is another's now."""
    return LeaseLost(f"{origin} is not owned by the lease {lease.id} of {lease.worker}")


def not_held(claim: Claim) -> LeaseLost:
    """Return what a worker is told whose claim is another's now."""
    return LeaseLost(
        f"the claim on {claim.id} is no longer this worker's: nothing was changed, and nothing may be sent"
    )
