"""Fork: in a child process every limiter starts afresh.

The parent's tasks and threads are not in the child, so nobody there would give back what they held, nor unlock what one of
them had locked at that moment.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Restarts(Protocol):
    """Something that can begin anew."""

    def restart(self) -> None:
        """Forget everybody who waits or runs, without waiting for a lock."""


_restarts: WeakSet[Restarts] = WeakSet()


def restart_in_children(what: Restarts) -> None:
    """Let `what` start afresh in child processes."""
    _restarts.add(what)


def _restart_all() -> None:
    for what in list(_restarts):
        what.restart()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_restart_all)
