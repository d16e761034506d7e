"""A client in virtual time that notes when it sends."""

from __future__ import annotations

from typing import Any

from comity.client.async_client import AsyncClient
from comity.testing.scripted_transport import ScriptedTransport
from comity.testing.virtual_clock import VirtualClock


def timed(clock: VirtualClock, *script: Any, **options: Any) -> tuple[AsyncClient, list[float]]:
    """Return a client of http://h, and the seconds at which requests are sent; the last answer of the script stays."""
    times: list[float] = []
    left = list(script)

    def answer(_: object) -> Any:
        times.append(clock.now() / 1e9)
        return left.pop(0) if len(left) > 1 else left[0]

    return AsyncClient("http://h", transport=ScriptedTransport(answer), clock=clock, **options), times
