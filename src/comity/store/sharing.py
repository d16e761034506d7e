"""How a worker's free slots are shared out among lanes.

A lane may take one more while it holds less than a third of what is free (a dynamic threshold: Choudhury and Hahne,
IEEE/ACM Transactions on Networking 6(2), 1998). So while others wait none comes to hold over a quarter of all slots, and each
that wakes up later may take a quarter of what those before it left, though they never give anything back.

A lane alone may hold as much as is free, which is half of all. Of 100 slots the first that wakes up beside it then gets 12 at
once, though nothing of the first lane ever ends: more than the 10 that an origin has in flight unless it is told otherwise.
Three quarters would leave it 6, nine tenths 2.
"""

from __future__ import annotations

from collections.abc import Sequence


def share(free: int, lanes: Sequence[tuple[int, int]]) -> list[int]:
    """Return how many slots each lane gets now.

    Args:
        free: slots that nobody holds.
        lanes: (slots held, deliveries ready) of each, in order of turn.

    Example:
        >>> share(16, [(0, 10_000), (0, 2)]), share(16, [(0, 10_000)])
        ([4, 2], [8])
    """
    times = 1 if len(lanes) == 1 else 3
    given = [0] * len(lanes)
    turn: Sequence[int] = range(len(lanes))
    while turn and free > 0:
        still = []
        for index in turn:
            held, ready = lanes[index]
            if given[index] < ready and times * (held + given[index]) < free:
                given[index] += 1
                free -= 1
                still.append(index)
        turn = still
    return given
