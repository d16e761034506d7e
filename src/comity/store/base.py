"""Store: what every database promises.

**Transactions.** Each method is one transaction, and returns when that is on the disk. A caller that is cancelled meanwhile
does not know whether it happened, but it happened as a whole or not at all. Calls that overlap have no order.

**Fences.** What a worker does carries its lease, and what it does to a delivery also the claim's fence. A lease that ran
out and was rescued, or a delivery that was cancelled, given back or claimed anew, is refused with LeaseLost: a late worker
changes nothing.

**Counts.** Lane counts, minutes and events change in the transaction that they tell of.

Any method raises StoreError when the database does not take part; `reason` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from comity.store.records import (
    Answer,
    AttemptRow,
    Claim,
    Claimed,
    Counts,
    Delivery,
    Ended,
    Event,
    EventKind,
    Lane,
    Lease,
    Minute,
    NewDelivery,
    Origin,
    Page,
    Payload,
    Pruned,
    Query,
    Renewal,
    Replayed,
    Rescued,
    Retention,
    Share,
    Start,
    Submitted,
)
from comity.store.schedules import DueSchedules, DueSince, NewSchedule, NextRun, Schedule
from comity.store.transitions import Step

AGEING = 60_000_000_000
"""After so long a delivery counts one priority more urgent, ns."""

MOST_IN_LINE = 100_000
"""So many deliveries at most may be alive in a lane that becomes ordered: all of them are put in line at once."""

LONGEST_AGEING = 86_400_000_000_000
"""Ranks with a longer one would not fit into 64 bits for long."""


class Store(Protocol):
    """A database of deliveries."""

    async def now(self) -> int:
        """Return the time on the store's clock, ns since the epoch."""

    async def close(self) -> None:
        """End what is under way and close the database; leases stay until they run out."""

    # Submitting

    async def submit(self, new: Sequence[NewDelivery | NewSchedule], most: int | None = None) -> list[Submitted]:
        """Store deliveries, each with payload and idempotency key, and schedules with their first run; one result for each, in order.

        A key that was used before stores nothing: it replays, or conflicts (see Submitted.outcome). Two that come at the
        same moment are put in order: one creates, the other replays.

        What would make more than `most` be pending or retrying is not stored, while keys that were used before are answered as
        ever. Submissions that overlap may together exceed it by what they bring.
        """

    # Working

    async def register(self, worker: str, lasting: int) -> Lease:
        """Give a worker a lease that ends `lasting` ns from now unless it is renewed."""

    async def renew(self, lease: Lease) -> Renewal:
        """Let the lease, and so all that the worker claimed and owns, last on; say what is being cancelled.

        A lease that ran out but was not rescued yet is renewed all the same: nobody else has got anything of it.

        Raises:
            LeaseLost: it was rescued.
        """

    async def resign(self, lease: Lease) -> None:
        """End a lease at once: what was not sent is ready again, what was being sent is treated as by `rescue`."""

    async def own(self, lease: Lease, most: int, beyond: int = 0) -> list[Origin]:
        """Take up to `most` origins that have live deliveries and no owner; return those that were taken.

        Whoever owns an origin applies its limits, after taking over pause, block, gap and `starts`. One of which an
        attempt of its last owner is still under way is therefore not to be had before that has ended.

        A caller that is cancelled gets nothing: what was taken for it is left to others.

        Args:
            lease: whose they become.
            most: how many at a time.
            beyond: so many the lease may own over its fair share, see `share`.

        Raises:
            LeaseLost: the lease was rescued.
        """

    async def share(self, lease: Lease) -> Share:
        """Return how many origins a lease owns, and how many are its fair share."""

    async def disown(self, lease: Lease, origins: Sequence[str]) -> None:
        """Leave origins to others: their claims that were not sent are ready again. Those of other owners are left out.

        What is under way ends as the worker's that sends it.
        """

    async def starts(self, origin: str, since: int) -> list[Start]:
        """Return the sends to an origin that began or were answered after `since`, in order of their start.

        One under way counts as started and answered now, one whose worker was lost as at its rescue: never too early.
        """

    async def hold(
        self, lease: Lease, origin: str, *, pause: int = 0, block: int = 0, gap: int = 0, why: str = ""
    ) -> None:
        """Write down what the owner learned: `pause` and `block` ns from now (0: none), and the gap; `why` is for its event.

        Who left an origin may still say what ended afterwards taught, as long as nobody else has it.

        Raises:
            LeaseLost: the origin is another lease's, or the lease was rescued.
        """

    async def claim(self, lease: Lease, free: int) -> Claimed:
        """Claim deliveries for `free` slots, from origins that this lease owns.

        Lanes take turns and get what `sharing.share` says; inside a lane the lowest `due + priority * ageing` comes first,
        where `due` is when it was to be sent first. In an ordered lane the oldest that is alive is the next, alone: while
        it is held, or waits for its time, no other is claimed. Paused lanes and paused or blocked origins are passed over at
        no cost to others. A delivery whose deadline has passed fails here.

        A caller that is cancelled gets nothing: what was claimed for it is given back.

        Raises:
            LeaseLost: the lease was rescued.
        """

    async def begin(self, claim: Claim, cost: bytes = b"{}") -> int:
        """Commit the attempt's row, before its first byte; return its number.

        A caller that is cancelled here has sent nothing and gives the claim back.

        Raises:
            LeaseLost: the claim is no longer this worker's, a cancellation included; nothing may be sent.
        """

    async def finish(self, claim: Claim, ended: Ended) -> Step:
        """End the attempt and take the delivery where `transitions.after_attempt` says; return that.

        Raises:
            LeaseLost: the attempt is no longer this worker's; nothing changed.
        """

    async def give_back(self, claims: Sequence[Claim], wait: int = 0, error: str | None = None) -> int:
        """Return claims of which nothing was sent; each is ready again in `wait` ns. Return how many were still held.

        `error` is what keeps them from being sent, for people: their last error until an attempt has another end.
        An attempt that had begun is ended as "unsent" and counts for nothing.
        """

    # Keeping in order

    async def rescue(self, jitter: int = 1_000_000_000) -> Rescued:
        """Take back what leases hold that ran out: claims are ready again, origins free, attempts under way "unknown".

        The delivery of such an attempt goes where `transitions.after_crash` says; sent again, it is due within `jitter`
        ns, each at a time of its own.
        """

    async def expire(self, most: int = 500) -> int:
        """Fail up to `most` deliveries whose deadline passed while they waited; return how many."""

    async def prune(self, retention: Retention, most: int = 500) -> Pruned:
        """Delete up to `most` rows of each kind that are old enough, deliveries with all that belongs to them.

        A lane that had no deliveries for `retention.lanes` goes when nothing was set for it: no pause, order or limits. An
        origin goes with its last lane, which stays as long as somebody owns the origin or it is paused, blocked or has a gap.
        """

    async def disable(self, after: int, most: int = 500) -> list[Lane]:
        """Pause up to `most` lanes whose attempts did nothing but fail for `after` ns, refusals by rate left out; return them.

        Counted from the first failure since the last success to the last one, so a lane that is not used is not paused.
        """

    # Schedules

    async def due_schedules(
        self, most: int = 500, *, after: DueSince | None = None, of: str | None = None
    ) -> DueSchedules:
        """Return up to `most` schedules whose next run is to be made, the one that waits longest first.

        Args:
            most: how many.
            after: where the page before ended.
            of: of this schedule alone, if it is among them.
        """

    async def advance(self, runs: Sequence[NextRun]) -> int:
        """Make runs, each if its schedule is not paused and its `next_at` is `before`; return how many were made.

        So of several who make the next run of one schedule one does.

        Raises:
            OptionsError: a lane that was lost meanwhile leads elsewhere now; none of these runs was made.
        """

    async def change_schedule(self, schedule: str, *, paused: bool) -> Schedule | None:
        """Pause or resume a schedule. None: there is none.

        Paused, its newest run is cancelled unless it was sent already. Resumed, its next run is to be made now, and for
        the time that the pause cancelled if that has not come yet; never for one before it, which had its run.
        """

    async def remove_schedule(self, schedule: str) -> bool:
        """End a schedule; its newest run is cancelled unless it was sent already. Return whether there was one."""

    async def schedule(self, schedule: str) -> Schedule | None:
        """Return a schedule, or None."""

    async def schedules(self, after: str = "", most: int = 1000) -> list[Schedule]:
        """Return schedules, the oldest first, from the first after the id `after`."""

    # Operating

    async def cancel(self, delivery: str) -> Delivery | None:
        """Cancel a delivery at once, or after the attempt under way; an end stays. None: there is none."""

    async def hasten(self, delivery: str) -> Delivery | None:
        """Make a waiting delivery due now; others stay. None: there is none."""

    async def replay(self, delivery: str) -> Delivery | None:
        """Deliver again what came to an end, under the same id, as if submitted now; one that is alive stays.

        Its attempts stay and its number of attempts begins anew; a deadline that has passed is dropped. None: there is none.
        """

    async def replay_all(self, query: Query, cursor: str | None = None, most: int = 500) -> Replayed:
        """Replay up to `most` deliveries that match and came to an end, the newest first."""

    async def change_lane(
        self,
        key: str,
        *,
        paused: bool | None = None,
        limits: bytes | None = None,
        ordered: bool | None = None,
        origin: str | None = None,
    ) -> Lane | None:
        """Pause or resume a lane, set its limits, or put it in order; None leaves each as it is. Returns None: there is none.

        With `origin` one that is not there is made, and leads to it: so it has its limits before its first delivery.

        One that is resumed begins anew with the time for which it fails. A lane becomes ordered at once: what was claimed of it and not sent is taken back, and what is being sent ends first.

        Raises:
            OptionsError: it is to become ordered, and more than `MOST_IN_LINE` of it are alive.
        """

    async def unblock(self, key: str) -> Lane | None:
        """End pause and block of a lane's origin. None: there is no such lane."""

    # Reading: each method sees one state of the database, with everything that was acknowledged before.

    async def get(self, delivery: str) -> Delivery | None:
        """Return a delivery, or None."""

    async def payload(self, delivery: str) -> Payload | None:
        """Return what a delivery sends, or None."""

    async def answer(self, delivery: str) -> Answer | None:
        """Return the answer that a delivery ended with, or None."""

    async def attempts(self, delivery: str) -> list[AttemptRow]:
        """Return a delivery's attempts in order."""

    async def deliveries(self, query: Query, cursor: str | None = None, most: int = 100) -> Page:
        """Return a page of deliveries, the newest first.

        Raises:
            OptionsError: the cursor is none of a page.
        """

    async def lane(self, key: str) -> Lane | None:
        """Return a lane, or None."""

    async def lanes(self, after: str = "", most: int = 1000) -> list[Lane]:
        """Return lanes in order of their keys, from the first after `after`."""

    async def origins(self) -> list[Origin]:
        """Return all origins in order of their names."""

    async def counts(self) -> Counts:
        """Return the counts of all lanes together."""

    async def minutes(self, since: int, until: int, lane: str | None = None) -> list[Minute]:
        """Return what was rolled up of the minutes that began in [since, until), in order."""

    async def events(self, after: int, most: int = 1000, kinds: Sequence[EventKind] | None = None) -> list[Event]:
        """Return events in order, from the first after the number `after`: those of some kinds, or all.

        Who wants some goes on after what `newer` returned before, and so passes over the others once.
        """

    async def last_event(self) -> int:
        """Return the number of the newest event, 0 when there is none."""

    async def mark(self, reader: str, seen: int) -> None:
        """Write down that a reader of the events has dealt with those up to the number `seen`; it never goes back."""

    async def marked(self, reader: str) -> int:
        """Return the number of the last event that a reader has dealt with, 0 when nothing is written down."""

    async def newer(self, after: int) -> int:
        """Return the number of the newest event that is known, as soon as that is after the number `after`."""
