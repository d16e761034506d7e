"""How a worker's free slots are shared out among lanes.

A lane may take one more while it holds less than a third of what is free (a dynamic threshold: Choudhury and Hahne,
IEEE/ACM Transactions on Networking 6(2), 1998). So a lane alone comes to hold a quarter of all slots and no more, and each
that wakes up later may take a quarter of what those before it left, though they never give anything back.
"""

from __future__ import annotations

from collections.abc import Sequence


def share(free: int, lanes: Sequence[tuple[int, int]]) -> list[int]:
    """Return how many slots each lane gets now.

    Args:
        free: slots that nobody holds.
        lanes: (slots held, deliveries ready) of each, in order of turn.

    Example:
        >>> share(16, [(0, 10_000), (0, 2)])
        [4, 2]
    """
    given = [0] * len(lanes)
    turn: Sequence[int] = range(len(lanes))
    while turn and free > 0:
        still = []
        for index in turn:
            held, ready = lanes[index]
            if given[index] < ready and 3 * (held + given[index]) < free:
                given[index] += 1
                free -= 1
                still.append(index)
        turn = still
    return given
