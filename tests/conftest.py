"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.sockets import GUARD, SocketGuard, may_use_loopback

# How long an example takes is no claim of a test: it says how busy the machine is.
settings.register_profile("comity", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("comity")


@pytest.fixture(autouse=True)
def socket_guard(request: pytest.FixtureRequest) -> Iterator[SocketGuard]:
    """Let the test use loopback where its directory allows it, and no socket elsewhere."""
    with GUARD.allowing(loopback=may_use_loopback(request.path, Path(__file__).parent)) as guard:
        yield guard
