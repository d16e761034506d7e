"""Shared: what all handlers have."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from starlette.requests import Request

from comity.policy.units import NS
from comity.service import submit
from comity.service.guard import Guard
from comity.service.log import Seldom
from comity.service.policies import Policies
from comity.service.schedule import with_first_time
from comity.service.submit import Refused, Submission
from comity.service.vault import Vault
from comity.store.base import Store
from comity.store.records import NewDelivery, Retention, Submitted
from comity.store.schedules import NewSchedule
from comity.web.feed import Feed
from comity.web.meter import Meter
from comity.web.room import Room
from comity.web.security import Tokens
from comity.web.storing import Storing
from comity.web.tally import Tally

SHARED = "comity.shared"
"""Where a scope has what all handlers share."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all handlers share.

    Args:
        store, guard, feed: see there; the feed is open.
        room: how much is taken in.
        signs: there is a secret to sign callbacks and deliveries with; without one nobody may ask for these.
        policies: those that submissions may ask for.
        vault: seals the secrets of what is taken in.
        tokens: who may do what; None where only this machine can connect.
        max_body: bytes of one submission.
        heartbeat: seconds between two signs of life where nothing else is said.
        patience: seconds that the body of a submission may take to come, a part of a batch, and a piece of an answer to be taken.
        retention: how long ends are kept.
        meter: counts answers.
        tally: adds up attempts.
        storing: how the last submission went.
        seldom: for what would be said of each request.
    """

    store: Store
    guard: Guard
    feed: Feed
    room: Room
    signs: bool = True
    policies: Policies = field(default_factory=Policies)
    vault: Vault = field(default_factory=Vault)
    tokens: Tokens | None = None
    max_body: int = 1 << 20
    heartbeat: float = 15.0
    patience: float = 30.0
    retention: Retention = field(default_factory=Retention)
    meter: Meter = field(default_factory=Meter)
    tally: Tally = field(default_factory=Tally)
    storing: Storing = field(default_factory=Storing)
    seldom: Seldom = field(default_factory=lambda: Seldom(60 * NS))

    def may_say(self, what: str) -> bool:
        """Return whether the log may be told of something that may concern each request."""
        return self.seldom.may(what, time.monotonic_ns())

    def to_deliver(self, given: Submission, key: str | None = None) -> NewDelivery | NewSchedule:
        """Return what is to be stored of a submission.

        Raises:
            Refused: a field cannot be used.
        """
        new = submit.to_deliver(given, self.guard, key, policies=self.policies, vault=self.vault, signs=self.signs)
        if given.callback_url is not None and not self.signs:
            hint = "set callback_secrets (COMITY_CALLBACK_SECRETS), or leave callbackUrl out"
            raise Refused(f"this service has no secret to sign callbacks with: {hint}", field="callbackUrl", new=new)
        return new

    async def known(self, refused: Refused) -> tuple[NewDelivery | NewSchedule, Submitted]:
        """Return what was accepted under the key of a submission that is refused now, as the configuration has changed since.

        Raises:
            Refused: `refused`, where nothing was.
        """
        new = refused.new
        if new is None or new.idempotency_key is None:
            raise refused
        (made,) = await self.submit([new], most=0)  # no room, so nothing new is stored
        if made.outcome == "full":
            raise refused
        return new, made

    async def submit(self, new: Sequence[NewDelivery | NewSchedule], most: int | None = None) -> list[Submitted]:
        """Store what was submitted, as `Store.submit`, and remember whether that went well; schedules begin now.

        Args:
            new: what.
            most: so many may be alive, rather than as many as there is room for.
        """
        with self.storing.watched():
            if any(isinstance(each, NewSchedule) for each in new):
                now = await self.store.now()
                new = [with_first_time(each, now) for each in new]
            return await self.store.submit(new, await self.room.bound(len(new)) if most is None else most)


def shared_of(request: Request) -> Shared:
    """Return the service that a request came to."""
    return cast("Shared", request.scope[SHARED])
