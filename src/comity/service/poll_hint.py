"""Poll hint: what a status answer says about when to ask again.

Unfinished work carries `nextPollMs` in its body and a `Retry-After`; finished work carries neither, which tells its
readers that nothing more will come. A reader spreads its waits (see `comity.client.polling`), the answer does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comity.policy.polling import by_elapsed
from comity.policy.units import NS, whole_ms


def next_poll(*, finished: bool, elapsed: int, due_in: int = 0) -> int | None:
    """Return how long to wait before the next look, ns, or None when there is nothing more to see.

    Args:
        finished: the work is in a terminal state.
        elapsed: ns since it was taken in.
        due_in: ns until its next attempt; before then nothing can change.

    Example:
        >>> next_poll(finished=False, elapsed=0, due_in=90_000_000_000)
        90000000000
    """
    return None if finished else max(by_elapsed(elapsed), due_in)


def headers(wait: int | None) -> dict[str, str]:
    """Return the headers of an answer: whole seconds, rounded up and never 0 (RFC 9110 section 10.2.3).

    Args:
        wait: from `next_poll`.

    Example:
        >>> headers(2_000_000_001)
        {'Retry-After': '3'}
    """
    return {} if wait is None else {"Retry-After": str(max(1, -(-wait // NS)))}


def body(
    status: Mapping[str, Any], wait: int | None, *, percent: float | None = None, envelope: bool = False
) -> dict[str, Any]:
    """Return the body of an answer.

    Args:
        status: what there is to say about the work; all of it stays as it is.
        wait: from `next_poll`.
        percent: how much is done, when that is known.
        envelope: wrap it all as the value of `data`.

    Example:
        >>> body({"status": "pending"}, 2_000_000_000, envelope=True)
        {'data': {'status': 'pending', 'nextPollMs': 2000}}
    """
    said = dict(status)
    if percent is not None:
        said["percentComplete"] = percent
    if wait is not None:
        said["nextPollMs"] = whole_ms(wait)
    return {"data": said} if envelope else said
