"""Windows: whether a list of moments kept a rate, and how much of the rate it used."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def over(moments: Sequence[int], limit: int, per: int) -> int:
    """Return how many windows of length `per` hold more than `limit` moments.

    A window is half open, and counted once for each moment that opens it: two moments exactly `per` apart do not share one.

    Args:
        moments: ns, in any order.
        limit: the most that a window may hold.
        per: ns.
    """
    ordered = sorted(moments)
    return sum(last - first < per for first, last in zip(ordered, ordered[limit:], strict=False))


def cycle(moments: Sequence[int], limit: int) -> float:
    """Return the mean time that each of `limit` places took from one use to the next, ns.

    The mean of the last `limit` moments less that of the first ones, over the number of cycles between them: this is
    the same whether the places move in step or have drifted apart, and gives no credit for the burst at the beginning.

    Args:
        moments: ns, in any order; a whole number of cycles, at least two.
        limit: places.

    Raises:
        ValueError: it is no whole number of cycles.
    """
    cycles, rest = divmod(len(moments), limit)
    if rest or cycles < 2:
        raise ValueError(f"{len(moments)} moments are not two or more whole cycles of {limit}")
    ordered = sorted(moments)
    return (fmean(ordered[-limit:]) - fmean(ordered[:limit])) / (cycles - 1)
