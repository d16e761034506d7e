"""Attempt and Timings: what one send looked like, as results and errors carry it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from comity.errors import Sent


# Structs, as every request makes one of each: a frozen dataclass takes several times as long to construct. They cannot be
# part of a cycle, so the garbage collector need not follow them.
class Timings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Seconds spent in each phase of one attempt; a phase that did not happen is 0.

    queue: in the limiter's queue.  pool: waiting for a connection.  dns, connect, tls: opening one.
    upload: until the request was written.  response: until the answer's first bytes.  download: until its last.
    """

    queue: float = 0.0
    pool: float = 0.0
    dns: float = 0.0
    connect: float = 0.0
    tls: float = 0.0
    upload: float = 0.0
    response: float = 0.0
    download: float = 0.0

    @property
    def total(self) -> float:
        """The sum of the phases."""
        return self.queue + self.pool + self.dns + self.connect + self.tls + self.upload + self.response + self.download

    def queued_for(self, queue: float) -> Timings:
        """Return the same phases with another time in the queue, in seconds."""
        if queue == self.queue:
            return self
        return Timings(
            queue=queue,
            pool=self.pool,
            dns=self.dns,
            connect=self.connect,
            tls=self.tls,
            upload=self.upload,
            response=self.response,
            download=self.download,
        )

    def as_dict(self) -> dict[str, float]:
        """Return the phases and the total by name, in seconds."""
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"total": self.total}


NO_TIMINGS = Timings()


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One send of a request.

    Args:
        number: 1 for the first send.
        started_at: when it started, seconds since the epoch (for people and logs; it decides nothing).
        waited: seconds between the end of the attempt before (or the call) and this start.
        status: the answer's status, or None.
        error: the error's class name and message, or None.
        sent: whether bytes of the request were handed to the socket.
        timings: the phases.
        retry_after: seconds that the answer asked to wait, or None.
        decision: what followed: "done", "retry" or the reason for giving up.
    """

    number: int
    started_at: float
    waited: float
    status: int | None = None
    error: str | None = None
    sent: Sent = "yes"
    timings: Timings = NO_TIMINGS
    retry_after: float | None = None
    decision: str = "done"

    def as_dict(self) -> dict[str, Any]:
        """Return the attempt as plain values for JSON."""
        row = {name: getattr(self, name) for name in self.__struct_fields__}
        return row | {"timings": self.timings.as_dict()}


def joined(before: Sequence[Attempt], after: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Return the attempts of two calls as those of one: the numbers of the second go on where the first ended."""
    return (*before, *(replace(attempt, number=len(before) + attempt.number) for attempt in after))
