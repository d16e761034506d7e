"""UUIDv7 (RFC 9562, 5.7): ids in order of time, so that a new row stands at the end of every index.

Within one process they rise strictly, also when the wall clock stands still or is set back: the 12 bits after the
millisecond count on (RFC 9562, 6.2, method 1), and when they are full the millisecond itself does.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_MS = 1_000_000
_COUNTER_BITS = 12


class Ids:
    """A source of ids, for one thread.

    Args:
        chance: returns so many random bytes.
    """

    def __init__(self, chance: Callable[[int], bytes] = os.urandom) -> None:
        self._chance = chance
        self._last = 0

    def new(self, now: int) -> str:
        """Return the next id.

        Args:
            now: ns since the epoch.

        Example:
            >>> Ids(bytes).new(1_700_000_000_000_000_000)
            '018bcfe5-6800-7000-8000-000000000000'
        """
        moment = self._last = max(self._last + 1, (now // _MS) << _COUNTER_BITS)
        chance = int.from_bytes(self._chance(8), "big") >> 2
        high = (moment >> _COUNTER_BITS) << 16 | 0x7000 | (moment & 0xFFF)
        text = f"{high << 64 | 0x8000_0000_0000_0000 | chance:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def floor(moment: int) -> str:
    """Return the least id of a moment, ns since the epoch: ids made from then on are not below it.

    Example:
        >>> floor(1_700_000_000_000_000_000)
        '018bcfe5-6800-7000-8000-000000000000'
    """
    text = f"{max(0, moment // _MS):012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-000000000000"
