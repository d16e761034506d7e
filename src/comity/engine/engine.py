"""Engine: what the drivers of calls have in common."""

from __future__ import annotations

import random
from collections.abc import Callable

from comity.engine.clock import Clock
from comity.engine.hosts import Hosts
from comity.engine.stats import Stats


class Engine:
    """Drives calls against the limiters of `hosts`; `AsyncEngine` as tasks, `ThreadEngine` in threads.

    Args:
        hosts: whose limits hold.
        draw: a random number in [0, 1), for jitter.
    """

    def __init__(self, hosts: Hosts, *, draw: Callable[[], float] = random.random) -> None:
        self.hosts = hosts
        self._draw = draw

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are on."""
        return self.hosts.clock

    def stats(self) -> Stats:
        """Return what is going on."""
        return self.hosts.stats()

    def close(self) -> None:
        """Refuse everybody who waits or comes; who runs may finish."""
        self.hosts.close()
