"""The clock of a store that lives in this process: the wall clock's time when it was opened, and steady from then on.

Leases and retries are lengths of time: a wall clock that is set forward would take every lease from its worker, one that is
set back would hold every retry up. A correction of the wall clock counts from the next opening.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def steady(
    wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
) -> Callable[[], int]:
    """Return a clock in ns since the epoch that is never set.

    Example:
        >>> clock = steady(wall=lambda: 5_000, monotonic=iter([70, 71, 99]).__next__)
        >>> clock(), clock()
        (5001, 5029)
    """
    offset = wall() - monotonic()
    return lambda: offset + monotonic()
