"""What goes into a store and comes out of it.

Every time is whole nanoseconds since the epoch on the store's own clock (a database on another machine has its own), every
length whole nanoseconds. What a worker measured on its clock therefore goes in as a length: "so long ago", "in so long".
`bytes` named headers, options, cost, limits or timings are JSON of the layers above; a store keeps them and reads none.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, get_args

import msgspec

from comity.errors import OptionsError, Sent
from comity.store.differing import differing

State = Literal["pending", "retrying", "completed", "failed", "cancelled"]
"""pending: not sent yet.  retrying: sent, and to be sent again.  The other three are ends."""

STATES: tuple[State, ...] = get_args(State)
ENDS: tuple[State, ...] = ("completed", "failed", "cancelled")

Mode = Literal["at_least_once", "at_most_once"]

EventKind = Literal[
    "pending", "retrying", "completed", "failed", "cancelled", "cancelling", "replayed",
    "lane.paused", "lane.resumed", "lane.limits", "lane.ordered", "lane.unordered",
    "origin.owned", "origin.released", "origin.held", "origin.unblocked",
    "schedule.created", "schedule.paused", "schedule.resumed", "schedule.removed",
]  # fmt: skip
"""A state's word says that a delivery came into it. cancelling: asked for while it was being sent. Those of a
schedule have its id as their note, and its newest run as their delivery."""

LATEST = 1 << 62
"""A time after all others."""


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to be delivered.

    Args:
        origin: scheme, host and port, "https://api.example:443"; what shares limits.
        lane: the queue it stands in; None is the lane named as its origin. A lane has the origin it was first used with.
        method, url: the request line.
        headers: JSON.
        body: the request's body, or None.
        options: JSON, whatever the layer above wants back with it.
        priority: 0 (first) to 9.
        run_at: not before this time; None is at once.
        delay: not before so long from now.
        deadline: not to be sent from this time on, or None.
        max_attempts: sends in all, refusals by rate left out; a store uses it only where the worker died.
        mode: "at_least_once", or "at_most_once": sent again only if nothing was sent, or it was refused by rate.
        idempotency_key: the caller's; a second delivery with it is the first one again.
        ordered: its lane has to be an ordered one: made so when this makes it, and this is refused when it is not.
        fingerprints: of what was given, where what is stored differs from it: the first one is stored, and each is the
            same delivery's. By default there is one, of all the other fields.
    """

    origin: str
    method: str
    url: str
    lane: str | None = None
    headers: bytes = b"{}"
    body: bytes | None = None
    options: bytes = b"{}"
    priority: int = 5
    run_at: int | None = None
    delay: int = 0
    deadline: int | None = None
    max_attempts: int = 6
    mode: Mode = "at_least_once"
    idempotency_key: str | None = None
    ordered: bool = False
    fingerprints: tuple[bytes, ...] = ()

    @property
    def lane_key(self) -> str:
        """The name of the lane it stands in."""
        return self.lane or self.origin

    @property
    def fingerprint(self) -> bytes:
        """A digest of all that a second use of the key must have in common with the first."""
        # Of what differs from the defaults: a field that comes later changes none of what has no use for it.
        return self.fingerprints[0] if self.fingerprints else sha256(msgspec.msgpack.encode(differing(self))).digest()

    def due(self, now: int) -> int:
        """Return when it is to be sent first, if it is handed in now."""
        return max(now + self.delay, self.run_at or 0)

    def rank(self, now: int, ageing: int) -> int:
        """Return its place in its lane, the least first; it ages from when it is due, not while it is meant to wait."""
        return self.due(now) + self.priority * ageing

    def is_as(self, fingerprint: bytes) -> bool:
        """Return whether a stored fingerprint is this delivery's."""
        return fingerprint in (self.fingerprints or (self.fingerprint,))

    def __repr__(self) -> str:
        return f"<NewDelivery {self.method} to {self.origin}>"


class Submitted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of a submission.

    Args:
        id: the delivery's; of the earlier one when the key was used before.
        outcome: "created"; "replayed": the key stood for the same; "conflict": it stood for something else, nothing stored;
            "full": as many are alive as may be, nothing stored, and there is no id.
        state: the delivery's state; None when it was pruned since.
        created_at: when the delivery was created.
        schedule: the id of the schedule whose first run it is; None when it is none.
    """

    id: str
    outcome: Literal["created", "replayed", "conflict", "full"] = "created"
    state: State | None = "pending"
    created_at: int
    schedule: str | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker's right to what it claimed and owns, until `expires_at`; renewed, it lasts `lasting` from then on."""

    id: int
    worker: str
    lasting: int
    expires_at: int


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """A renewed lease, and which of its deliveries on the way are to be cancelled (ids)."""

    lease: Lease
    cancelling: Sequence[str]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that a worker may send.

    Args:
        row: the store's own number of it.
        lease, fence: what every later call is checked against.
        attempts, refusals: since it was submitted or replayed; refusals are not among the attempts.
        refusals_in_a_row: since the last attempt that ended otherwise.
    """

    row: int
    id: str
    lease: int
    fence: int
    lane: str
    origin: str
    method: str
    url: str
    headers: bytes
    body: bytes | None
    options: bytes
    priority: int
    enqueued_at: int
    deadline: int | None
    max_attempts: int
    mode: Mode
    idempotency_key: str | None
    attempts: int
    refusals: int
    refusals_in_a_row: int

    def __repr__(self) -> str:
        return f"<Claim {self.id} in {self.lane}, fence {self.fence}>"


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """Claims, and when the next delivery that waits for its time comes due (None: none waits)."""

    claims: Sequence[Claim]
    next_due: int | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A captured answer.

    Args:
        size: bytes of the body that were read; `truncated` says that `body` holds only its beginning.
        sha256: of what was read.
    """

    status: int
    headers: bytes = b"[]"
    body: bytes = b""
    truncated: bool = False
    size: int = 0
    sha256: bytes = b""

    def __repr__(self) -> str:
        return f"<Answer {self.status}, {self.size} bytes>"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, and what is to follow.

    Args:
        then: "completed", "failed", or "retry" after `wait`.
        wait: ns from now.
        reason: why it is given up.
        status, error: of this attempt; secrets in the error are masked before it is stored.
        refused: refused by rate (429).
        sent: whether bytes were handed to the socket.
        sent_ago, answered_ago: ns since the first byte, and since the answer began; None when it did not happen.
        retry_after: ns that the answer asked to wait, or None.
        timings: JSON.
        answer: what was captured; kept only when the delivery ends with it.
    """

    then: Literal["completed", "failed", "retry"]
    wait: int = 0
    reason: str | None = None
    status: int | None = None
    error: str | None = None
    refused: bool = False
    sent: Sent = "yes"
    sent_ago: int | None = None
    answered_ago: int | None = None
    retry_after: int | None = None
    timings: bytes = b"{}"
    answer: Answer | None = None


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One send, as stored.

    Args:
        number: from 1.
        waited: ns between the end of the attempt before (or the submission) and this one's start.
        started_at: when the row was committed, before the first byte.
        ended_at: None while it is under way.
        decision: "sending"; what followed: a state's word; "unknown": its worker was lost; "unsent": given back.
    """

    number: int
    started_at: int
    waited: int
    ended_at: int | None
    sent: Sent
    sent_at: int | None
    answered_at: int | None
    status: int | None
    error: str | None
    retry_after: int | None
    timings: bytes
    decision: str


class Start(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A send that may still count against a limit; a time that nobody knows is the latest that it can be.

    Args:
        under_way: it has not ended yet.
    """

    sent_at: int
    answered_at: int
    cost: bytes
    under_way: bool


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as it stands.

    Args:
        sending: an attempt is under way.
        cancelling: it was cancelled during that attempt, which decides.
        due_at: when it is, or was, to be sent next.
        ended_at: when it came to an end, or None.
        attempts: attempt rows that there are.
        status, error: of the last attempt that ended.
        reason: why it failed.
        version: rises with every visible change.
        schedule: the id of the one whose run it is, or None.
    """

    id: str
    state: State
    sending: bool
    cancelling: bool
    lane: str
    method: str
    url: str
    options: bytes
    priority: int
    mode: Mode
    idempotency_key: str | None
    created_at: int
    enqueued_at: int
    due_at: int
    deadline: int | None
    ended_at: int | None
    attempts: int
    max_attempts: int
    crashes: int
    status: int | None
    error: str | None
    reason: str | None
    version: int
    schedule: str | None

    def __repr__(self) -> str:
        return f"<Delivery {self.id} {self.state}, {self.attempts} attempts>"

    @property
    def last_error(self) -> str | None:
        """What went wrong in the last attempt that ended."""
        if self.state == "completed":
            return None
        return f"HTTP {self.status}" if self.status is not None and self.status >= 300 else self.error


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What a delivery sends."""

    headers: bytes
    body: bytes | None

    def __repr__(self) -> str:
        return f"<Payload, {len(self.body or b'')} bytes>"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries: of a state, a lane, a schedule, created in [since, until), failed for a reason; None is any."""

    state: State | None = None
    lane: str | None = None
    since: int | None = None
    until: int | None = None
    reason: str | None = None
    schedule: str | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries, the newest first, and the cursor of the next page (None: this is the last)."""

    deliveries: Sequence[Delivery]
    cursor: str | None


class Replayed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many were replayed, and the cursor to go on from (None: there are no more)."""

    count: int
    cursor: str | None


class Counts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Deliveries that there are, by state; and of those alive how many could be claimed now, and how many are."""

    pending: int = 0
    retrying: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    ready: int = 0
    held: int = 0


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What several workers know of one origin.

    Args:
        lease: of the worker that owns it, or None.
        paused_until, blocked_until: nothing of it is claimed before.
        gap: the learned gap between two starts, ns.
    """

    name: str
    lease: int | None
    paused_until: int
    blocked_until: int
    gap: int


class Share(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many origins with live deliveries a lease owns, and how many are its fair share: all of them, by the leases that last."""

    owned: int
    fair: int


class Lane(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queue of deliveries to one origin.

    Args:
        pause_reason: why it was paused by itself, or None.
        ordered: they are sent one after the other, the oldest first.
    """

    key: str
    origin: Origin
    paused: bool
    pause_reason: str | None
    ordered: bool
    limits: bytes
    counts: Counts


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What happened. `seq` rises by 1 in the order of the commits: a reader that saw one has seen all before it."""

    seq: int
    at: int
    kind: EventKind
    lane: str | None = None
    origin: str | None = None
    delivery: str | None = None
    attempt: int | None = None
    status: int | None = None
    note: str | None = None


class Minute(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a lane's attempts that ended within one minute came to.

    Args:
        began_at: the minute's beginning.
        attempts: that ended in it.
        ok: that completed their delivery.
        refused: refused by rate.
        failed: all others.
        time_sum, time_min, time_max: ns from the first byte to the beginning of the answer, over the `answered`.
    """

    lane: str
    began_at: int
    attempts: int
    ok: int
    refused: int
    failed: int
    answered: int
    time_sum: int
    time_min: int | None
    time_max: int | None


class Rescued(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was taken from workers whose lease ran out."""

    leases: int = 0
    returned: int = 0
    ended: int = 0


_DAY = 86_400 * 1_000_000_000


class Retention(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How long things are kept after their end, ns; keys after the submission, the rest after they happened.

    Raises:
        OptionsError: one is negative.
    """

    completed: int = 7 * _DAY
    failed: int = 30 * _DAY
    cancelled: int = 7 * _DAY
    keys: int = 2 * _DAY
    events: int = 7 * _DAY
    minutes: int = 30 * _DAY

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (value := getattr(self, name)) < 0:
                raise OptionsError(name, value, "0 ns or more")

    @property
    def lanes(self) -> int:
        """How long lanes are kept after their last delivery went: as long as anything may be left that names them."""
        return max(self.events, self.minutes)


class Pruned(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many rows went; `more` says that others are old enough, `took` for how long a transaction was busy with it, ns."""

    deliveries: int = 0
    keys: int = 0
    events: int = 0
    minutes: int = 0
    lanes: int = 0
    origins: int = 0
    more: bool
    took: int
