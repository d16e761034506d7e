"""Timeout: how long each phase of one attempt may take."""

from __future__ import annotations

from dataclasses import dataclass, field

from comity.policy.naming import named_options
from comity.policy.units import Seconds, as_ns, duration

CONNECT = 10.0
"""How long a connection may take to come about, seconds, unless said otherwise."""


@named_options
@dataclass(frozen=True, init=False)
class Timeout:
    """Limits of one attempt, in seconds, timedelta or text ("30s"); None is no limit, the least is 1 ms.

    The clock of an attempt starts when it is sent: time in the queue does not count (`deadline` counts it).

    Args:
        connect: looking up the name, opening TCP and TLS, proxy included.
        send: writing the request, from the connection being there.
        request: connect and send together.
        response: from the request being written until the answer's first bytes.
        idle: between two reads of the answer.
        attempt: the whole attempt, body included.

    Raises:
        OptionsError: a value is no duration of at least 1 ms.

    Example:
        >>> Timeout(response="2min").response
        120.0
    """

    connect: float | None
    send: float | None
    request: float | None
    response: float | None
    idle: float | None
    attempt: float | None
    connect_ns: int | None = field(init=False, repr=False, compare=False)
    send_ns: int | None = field(init=False, repr=False, compare=False)
    request_ns: int | None = field(init=False, repr=False, compare=False)
    response_ns: int | None = field(init=False, repr=False, compare=False)
    idle_ns: int | None = field(init=False, repr=False, compare=False)
    attempt_ns: int | None = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        *,
        connect: Seconds | None = CONNECT,
        send: Seconds | None = 30.0,
        request: Seconds | None = None,
        response: Seconds | None = 30.0,
        idle: Seconds | None = 30.0,
        attempt: Seconds | None = None,
    ) -> None:
        given = {
            "connect": connect, "send": send, "request": request, "response": response, "idle": idle, "attempt": attempt,
        }  # fmt: skip
        for phase, value in given.items():
            limit = duration(value, f"timeout.{phase}", minimum=0.001)
            vars(self).update({phase: limit, f"{phase}_ns": as_ns(limit)})

    @classmethod
    def of(cls, value: Timeout | Seconds | None) -> Timeout:
        """Return a Timeout as it is; a duration limits the whole attempt; None is no limit at all.

        With a duration the phases have no limits of their own, so that `timeout=120` really allows a slow answer 120 s;
        only `connect` keeps its 10 s.

        Raises:
            OptionsError: the value is no duration of at least 1 ms.
        """
        if isinstance(value, Timeout):
            return value
        limit = duration(value, "timeout", minimum=0.001)
        return cls(connect=None if limit is None else CONNECT, send=None, response=None, idle=None, attempt=limit)
