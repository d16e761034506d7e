"""Limits: how long one send through httpx may take: by the client's own limits, and by the policy where it is stricter."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic_ns

from comity.engine.call import Slot
from comity.policy.timeouts import Timeout

_UNSAID = Timeout()


class Limits:
    """The limits of one send.

    Args:
        own: httpx's, by phase, in seconds: connect, read, write and pool.
        timeout: the policy's. The default value stands for none said: then the client's own limits are all there are.
        slot: of the attempt; its deadline holds too.

    Attributes:
        phases: what httpx is to keep, by phase.
        whole: "deadline" or "attempt", whichever ends the send first; "" for neither.
        seconds: that limit; of a deadline what was left of it.
    """

    __slots__ = ("_end", "_idle", "_read", "phases", "seconds", "whole")

    def __init__(self, own: Mapping[str, float | None], timeout: Timeout, slot: Slot) -> None:
        said = Timeout.of(None) if timeout == _UNSAID else timeout
        ends = [("deadline", slot.time_left()), ("attempt", said.attempt_ns)]
        self.whole, left = min(
            ((name, ns) for name, ns in ends if ns is not None), key=lambda each: each[1], default=("", None)
        )
        self._end = None if left is None else monotonic_ns() + left
        self.seconds = None if left is None else left / 1e9
        self._read, self._idle = own.get("read"), said.idle
        self.phases = {
            "connect": _least(own.get("connect"), said.connect, said.request, self.seconds),
            "write": _least(own.get("write"), said.send, said.request, self.seconds),
            "read": _least(self._read, said.response, self.seconds),
            "pool": _least(own.get("pool"), self.seconds),
        }

    def left(self) -> float | None:
        """Return how long the send may still take, seconds; None for no bound."""
        return None if self._end is None else (self._end - monotonic_ns()) / 1e9

    @property
    def over(self) -> bool:
        """Whether the time for the whole send is up."""
        return self._end is not None and monotonic_ns() >= self._end

    def reading(self) -> None:
        """Let the limit of the body hold from now on; httpx looks it up when it begins to read one."""
        self.phases["read"] = _least(self._read, self._idle, self.left())

    def draining(self, longest: float) -> None:
        """Let no wait for a body that nobody wants take longer than so many seconds."""
        self.phases["read"] = _least(self.phases["read"], longest)


def _least(*limits: float | None) -> float | None:
    """Return the shortest limit, at least a millisecond, None for none."""
    return max(0.001, min(said)) if (said := [limit for limit in limits if limit is not None]) else None
