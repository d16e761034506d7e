"""Model: an upstream that exists in virtual time only, so that an hour of its answers takes a second.

Theory. A policy is judged before it is let loose: the client, its limiter, its controller and its retries are the real
ones, and only the wire and the clock are not. What the upstream bears is told in words, and the limits behind it are those
of the upstream server, which share no arithmetic with comity's own.

Example:
    >>> from comity import AsyncClient
    >>> from comity.testing import Model, ScriptedTransport, VirtualClock
    >>> clock = VirtualClock()
    >>> model = Model("bucket 10/s burst 5 latency 20ms", clock, seed=1)
    >>> async def ask():
    ...     async with AsyncClient("http://model", rate="10/s", clock=clock, transport=ScriptedTransport(model)) as api:
    ...         return [(await api.get("/")).status_code for _ in range(3)]
    >>> clock.run(ask())
    [200, 200, 200]
    >>> model.accepted, model.refused
    (3, 0)
"""

from __future__ import annotations

from comity.testing.model.model import Model

__all__ = ["Model"]
