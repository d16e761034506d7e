"""An upstream for each test of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from comity.testing.upstream import Upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A real server on loopback, in a thread of its own."""
    with Upstream(capture=True) as server:
        yield server
