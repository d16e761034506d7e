"""`comity upstream`: how it refuses."""

from __future__ import annotations

from comity.testing.upstream import Upstream
from tests.command import comity


def test_a_port_in_use_is_told_with_the_way_out():
    with Upstream() as server:
        done = comity("upstream", "--port", server.port)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"comity upstream: port {server.port} is in use; --port 0 takes a free one\n"
